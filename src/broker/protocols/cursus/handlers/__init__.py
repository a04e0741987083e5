"""What the commands do: a file per idea."""
