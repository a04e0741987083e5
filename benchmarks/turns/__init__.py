"""The longest turn of the event loop for each long request."""
