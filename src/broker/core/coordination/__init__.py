"""What the coordinators of groups and transactions share."""
