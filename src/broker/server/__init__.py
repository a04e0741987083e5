"""The broker process around core: wiring, sockets, periodic work."""
