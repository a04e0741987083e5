"""What the broker means: topics, partitions, groups, transactions, replication."""
