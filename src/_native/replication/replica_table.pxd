from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.log.partition_map cimport NamedPartition, PartitionMap

cdef enum:
    # States, which are indexes of `ReplicaTable.lists`.
    REPLICA_SYNCING            # what was appended is not durable yet
    REPLICA_TO_NAME            # the next request names its position
    REPLICA_NAMED              # the leader knows its position
    REPLICA_HELD_BACK          # it is not named before the throttle allows it
    REPLICA_FORGOTTEN          # the next request ends it in the session; it has no log any more
    REPLICA_STATES

# A partition of this broker that is copied from one leader.
cdef struct Replica:
    NamedPartition named       # first: a Watch* of the log is a Replica*
    int state
    Replica* next              # in the list of its state
    Replica* previous
    PyObject* log              # PartitionLog, owned; NULL once it is forgotten
    int32_t epoch              # of its leader
    int64_t named_in           # the request that named it last
    int64_t named_start        # the log start in it
    bint is_in_session         # the leader's session has it
    bint is_blocking           # the next request waits for its sync

cdef struct ReplicaList:
    Replica* first
    Replica* last
    int32_t count

# The partitions that are copied from one leader, by topic id and number.
cdef struct ReplicaTable:
    ReplicaList lists[REPLICA_STATES]
    PartitionMap map


cdef Replica* table_find(
    ReplicaTable* table, const uint8_t* topic_id, int32_t partition) noexcept nogil
cdef Replica* table_add(
    ReplicaTable* table, const uint8_t* topic_id, int32_t partition,
    int state) noexcept nogil
cdef void table_drop(ReplicaTable* table, Replica* replica) noexcept nogil
cdef void table_move(ReplicaTable* table, Replica* replica, int state) noexcept nogil
cdef void table_free(ReplicaTable* table) noexcept nogil
