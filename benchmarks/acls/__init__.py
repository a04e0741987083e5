"""Decisions of the authorizer, and what they cost the native paths."""
