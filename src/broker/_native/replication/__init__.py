"""Compiled: see src/_native."""
