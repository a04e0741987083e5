"""What groups cost: loads, rebalances and administration, in CPU and in turns of the loop."""
