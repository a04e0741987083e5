"""The broker's logic: topics, partitions, groups, transactions; no sockets, no wire formats."""
