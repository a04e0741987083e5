"""Consumer groups: who consumes together, and how far each group has read.

    commands.py     what is asked and answered, in no protocol's words
    records.py      what is remembered, in Kafka's own record formats
    classic.py      the state machine of one classic group; joining.py its waiting room,
                    presence.py who is alive in it, subscription.py what its members read
    offsets.py      the committed offsets; pending_offsets.py those of open transactions
    administration.py  lists, deletions and expiry: what concerns many groups or many offsets
    consumer/       the machine of one consumer group, whose partitions the broker assigns (KIP-848)
    assigned/       the machine of a group whose partitions the broker assigns at once (V1)
    conversions.py  groups that become of another kind; kinds.py: which there are
    shard.py        the groups and offsets of one partition of __consumer_offsets
    coordinator.py  the public face: finds the shard, answers when the log is durable

The machines read no clock and do no I/O: a command returns a Decision (records and replies),
broker.core.coordinator appends the records, and what they say becomes true in `replay`.
"""
