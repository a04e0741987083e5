"""Consumer groups: their members, their partitions and their committed offsets.

    coordinator.py  the public API: finds the partition, responds when the log is durable
    partition/      the groups and offsets of one partition of `__consumer_offsets`
    classic/        the state machine of one classic group
    consumer/       the state machine of one consumer group (KIP-848): the broker assigns partitions
    assigned/       the state machine of one assigned group (V1, Cursus)
    offsets/        committed offsets, and those of open transactions
    commands/       requests and responses, independent of the wire protocol
    records/        what is stored in `__consumer_offsets`, in Kafka's record formats
    settings.py     the settings that an operator may change
    deadlines.py    deadlines of members
    memory.py       the memory that groups take, and its budget

Imports go down this list; classic, consumer and assigned groups do not know each other.

The state machines read no clock and do no I/O: a command returns a Decision (records and replies),
core/coordination/coordinator.py appends the records, and `replay` of a record changes the state.
"""
