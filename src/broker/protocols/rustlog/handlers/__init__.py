"""Handlers of the requests, shared by both forms."""
