"""Configurations that clients alter: of the broker, of groups, of loggers."""
