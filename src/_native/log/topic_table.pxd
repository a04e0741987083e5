from cpython.object cimport PyObject
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from broker._native.log.partition_log cimport PartitionLog


# One topic as the fast path sees it.
cdef class TopicEntry:
    cdef readonly str name
    cdef bytes name_bytes
    cdef readonly bytes topic_id
    cdef readonly list logs              # of PartitionLog, by partition; None: not led here
    cdef readonly dict followed          # of PartitionLog: those that copy their leaders'
    cdef uint64_t request_mark           # of the last request that named it

    cdef PartitionLog log_of(self, int32_t partition)
    cdef PartitionLog copy_of(self, int32_t partition)


cdef class TopicTable:
    cdef PyObject** by_name              # slots of TopicEntry, open addressing; NULL = empty
    cdef PyObject** by_id
    cdef uint32_t capacity
    cdef dict entries                    # name → TopicEntry: owns them
    # The epoch of each broker's registration, by its id, as this broker knows them. None: it has no
    # other brokers.
    cdef public dict brokers
    # The rack of each broker that readers of its rack use instead of a leader here, by its id.
    cdef public dict racks

    cdef TopicEntry find_name(self, const uint8_t* name, size_t size)
    cdef TopicEntry find_id(self, const uint8_t* topic_id)
    cdef void rehash(self) except *
    cdef void place(self, TopicEntry entry) noexcept


cdef uint64_t new_request_mark() noexcept
