"""Handlers of the commands, by subject."""
