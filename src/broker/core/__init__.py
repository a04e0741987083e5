"""What the broker means: partitions, groups, coordinators."""
