"""The partitions that are copied from one leader, each in the list of its state.

    add --> SYNCING --> TO_NAME --> NAMED -- records arrive --> SYNCING
                |          |          |
        an error, remove --+----------'--> FORGOTTEN -- named as such in a request --> gone

Between SYNCING and TO_NAME, a throttled partition may be HELD_BACK.

The lists are first in, first out: with many partitions to name, each one's turn comes.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from broker._native.kernel.cursor cimport load_uint32

cdef enum:
    CAPACITY_MIN = 64


cdef inline Replica** slot_of(
        ReplicaTable* table, const uint8_t* topic_id, int32_t partition) noexcept nogil:
    # Topic ids are random.
    cdef uint32_t hashed = load_uint32(topic_id) + <uint32_t>partition * <uint32_t>0x9E3779B1
    return &table.slots[(hashed ^ (hashed >> 16)) & (table.capacity - 1)]


cdef bint grow(ReplicaTable* table) noexcept nogil:
    cdef uint32_t capacity = table.capacity * 2 if table.capacity > 0 else CAPACITY_MIN
    cdef Replica** slots = <Replica**>calloc(capacity, sizeof(Replica*))
    cdef Replica** slot
    cdef Replica* replica
    cdef int state
    if slots == NULL:
        return False
    free(table.slots)
    table.slots = slots
    table.capacity = capacity
    for state in range(REPLICA_STATES):
        replica = table.lists[state].first
        while replica != NULL:
            slot = slot_of(table, replica.topic_id, replica.partition)
            replica.next_in_slot = slot[0]
            slot[0] = replica
            replica = replica.next
    return True


cdef void put_in(ReplicaList* into, Replica* replica) noexcept nogil:
    replica.next = NULL
    replica.previous = into.last
    if into.last == NULL:
        into.first = replica
    else:
        into.last.next = replica
    into.last = replica
    into.count += 1


cdef void take_out(ReplicaList* source, Replica* replica) noexcept nogil:
    if replica.previous == NULL:
        source.first = replica.next
    else:
        replica.previous.next = replica.next
    if replica.next == NULL:
        source.last = replica.previous
    else:
        replica.next.previous = replica.previous
    source.count -= 1


cdef Replica* table_find(
        ReplicaTable* table, const uint8_t* topic_id, int32_t partition) noexcept nogil:
    """Return the partition, or NULL."""
    cdef Replica* replica
    if table.slots == NULL:
        return NULL
    replica = slot_of(table, topic_id, partition)[0]
    while replica != NULL and (
            replica.partition != partition
            or memcmp(replica.topic_id, topic_id, TOPIC_ID_SIZE) != 0):
        replica = replica.next_in_slot
    return replica


cdef Replica* table_add(
        ReplicaTable* table, const uint8_t* topic_id, int32_t partition,
        int state) noexcept nogil:
    """Add a partition that is not there; return NULL without memory."""
    cdef Replica* replica
    cdef Replica** slot
    if table.count >= table.capacity and not grow(table):
        return NULL
    replica = <Replica*>calloc(1, sizeof(Replica))
    if replica == NULL:
        return NULL
    memcpy(replica.topic_id, topic_id, TOPIC_ID_SIZE)
    replica.partition = partition
    replica.state = state
    slot = slot_of(table, topic_id, partition)
    replica.next_in_slot = slot[0]
    slot[0] = replica
    put_in(&table.lists[state], replica)
    table.count += 1
    return replica


cdef void table_drop(ReplicaTable* table, Replica* replica) noexcept nogil:
    """Remove a partition, and free it."""
    cdef Replica** slot = slot_of(table, replica.topic_id, replica.partition)
    while slot[0] != replica:
        slot = &slot[0].next_in_slot
    slot[0] = replica.next_in_slot
    take_out(&table.lists[replica.state], replica)
    table.count -= 1
    free(replica)


cdef void table_move(ReplicaTable* table, Replica* replica, int state) noexcept nogil:
    """Append a partition to the list of another state, or to the end of its own."""
    take_out(&table.lists[replica.state], replica)
    replica.state = state
    put_in(&table.lists[state], replica)


cdef void table_free(ReplicaTable* table) noexcept nogil:
    """Free the memory of a table without partitions."""
    free(table.slots)
    table.slots = NULL
    table.capacity = 0
