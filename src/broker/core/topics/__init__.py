"""Topics: which exist, their rules, configurations and partitions."""
