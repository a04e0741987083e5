"""What the upkeep of logs costs; each module is a program of its own."""
