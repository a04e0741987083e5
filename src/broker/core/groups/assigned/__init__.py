"""Assigned groups, of V1 and Cursus: the broker assigns all partitions with each join.

assignors.py  the assignors
images.py     the stored state, in Kafka's record of a classic group
group.py      the state machine of one group
group_update.py  the changes that one command makes to a group
rejoining.py  member ids of Cursus's members that join again
"""
