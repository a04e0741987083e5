"""Wiring and sockets: the process around the core."""
