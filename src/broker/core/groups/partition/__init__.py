"""The groups and offsets of one partition of `__consumer_offsets`.

shard.py            the state machine of the partition: routes commands to the groups
checks.py           why requests are refused before they reach a group
assigned_groups.py  routes commands to assigned groups
administration.py   lists, deletions and expiry of groups and offsets, in steps
conversions.py      conversions between the types of group; group_types.py: the types
migration.py        the state of a group that is converted between classic and consumer
"""
