"""Committed offsets.

committed.py   the offsets of all groups of one coordinator partition
pending.py     offsets of open transactions
"""
