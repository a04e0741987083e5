"""Consumer groups: their members, their partitions and their committed offsets.

    commands.py     requests and responses, independent of the wire protocol
    records.py      what is stored in `__consumer_offsets`, in Kafka's record formats
    classic.py      the state machine of one classic group; rebalance.py its rebalances,
                    presence.py its members' sessions, subscription.py the topics they read
    offsets.py      committed offsets; pending_offsets.py those of open transactions
    administration.py  lists, deletions and expiry of groups and offsets, in steps
    consumer/       the state machine of one consumer group (KIP-848): the broker assigns partitions
    assigned/       the state machine of one assigned group (V1, Cursus)
    conversions.py  conversions between the group types; group_types.py: the types
    group_sizes.py  the memory that groups take, and its budget
    shard.py        the groups and offsets of one partition of __consumer_offsets
    coordinator.py  the public API: finds the shard, responds when the log is durable

The state machines read no clock and do no I/O: a command returns a Decision (records and replies),
core/coordination/coordinator.py appends the records, and `replay` of a record changes the state.
"""
