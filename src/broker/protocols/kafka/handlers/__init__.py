"""One file per API: its versions on top, then one function from request to response."""
