"""Requests to groups and their responses, independent of the wire protocol.

classic.py, consumer.py, assigned.py   requests of the members of each type of group
offsets.py    commits, fetches and deletions of offsets
listing.py    lists of groups
decision.py   all responses, and the decision that every command returns
"""
