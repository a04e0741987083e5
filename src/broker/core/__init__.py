"""What the broker means: topics, partitions, groups; no sockets, no wire formats."""
