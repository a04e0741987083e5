"""One module per API: its docstring lists the versions, `handle` serves a request."""
