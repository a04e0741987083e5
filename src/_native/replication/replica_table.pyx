"""The partitions that are copied from one leader, each in the list of its state.

    add --> SYNCING --> TO_NAME --> NAMED -- records arrive --> SYNCING
                |          |          |
        an error, remove --+----------'--> FORGOTTEN -- named as such in a request --> gone

Between SYNCING and TO_NAME, a throttled partition may be HELD_BACK.

The lists are first in, first out: with many partitions to name, each one's turn comes.
"""

from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport calloc, free

from broker._native.log.partition_map cimport map_add, map_find, map_free, map_remove


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
    return <Replica*>map_find(&table.map, topic_id, partition)


cdef Replica* table_add(
        ReplicaTable* table, const uint8_t* topic_id, int32_t partition,
        int state) noexcept nogil:
    """Add a partition that is not there; return NULL without memory."""
    cdef Replica* replica = <Replica*>calloc(1, sizeof(Replica))
    if replica == NULL or not map_add(&table.map, &replica.named, topic_id, partition):
        free(replica)
        return NULL
    replica.state = state
    put_in(&table.lists[state], replica)
    return replica


cdef void table_drop(ReplicaTable* table, Replica* replica) noexcept nogil:
    """Remove a partition, and free it."""
    map_remove(&table.map, &replica.named)
    take_out(&table.lists[replica.state], replica)
    free(replica)


cdef void table_move(ReplicaTable* table, Replica* replica, int state) noexcept nogil:
    """Append a partition to the list of another state, or to the end of its own."""
    take_out(&table.lists[replica.state], replica)
    replica.state = state
    put_in(&table.lists[state], replica)


cdef void table_free(ReplicaTable* table) noexcept nogil:
    """Free the memory of a table without partitions."""
    map_free(&table.map)
