"""What the broker means, whatever protocol asks: partitions, topics, groups."""
