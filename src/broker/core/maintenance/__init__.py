"""Periodic work on logs: retention, compaction, scrubbing, disk space."""
