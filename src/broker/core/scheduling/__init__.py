"""How work shares the event loop: admission, steps, waiting requests, the I/O thread."""
