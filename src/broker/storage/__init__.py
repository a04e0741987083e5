"""What the disk holds: folders, recovery, checkpoints, the metadata store."""
