"""What `make bench` runs. Nothing here is installed."""
