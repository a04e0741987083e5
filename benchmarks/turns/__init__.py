"""How long one request holds up the loop."""
