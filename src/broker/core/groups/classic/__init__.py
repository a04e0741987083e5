"""Classic groups: members join a generation, their leader assigns the partitions.

group.py         the state machine of one group
state.py         its state: the last record, the rebalance, the sessions
joining.py       joins of new, rejoining and restarted members
join_phase.py    the first half of a rebalance: from its beginning to the next generation
rebalance.py     joins and syncs that wait, the choice of the protocol
presence.py      sessions and protocols of members
subscription.py  the topics that the members have subscribed to
"""
