"""Retention, compaction and integrity of closed segments."""
