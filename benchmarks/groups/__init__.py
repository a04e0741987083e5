"""The cost of groups: loads, rebalances and administration, in CPU time and turns."""
