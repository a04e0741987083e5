"""Streams of events: their memory, their file, and what each request costs."""
