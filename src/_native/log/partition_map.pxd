from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from broker._native.log.turn cimport Watch
from broker._native.messages.fields cimport TOPIC_ID_SIZE

# A partition that is known by topic id and number, and watched: the first member of whatever is
# kept of it.
cdef struct NamedPartition:
    Watch watch                    # first: a Watch* of the log is a NamedPartition*
    NamedPartition* next_in_slot
    uint8_t[TOPIC_ID_SIZE] topic_id
    int32_t partition

cdef struct PartitionMap:
    NamedPartition** slots
    uint32_t capacity              # a power of two; 0: no memory yet
    uint32_t count
    uint64_t key                   # of the hash


cdef NamedPartition* map_find(
    const PartitionMap* map, const uint8_t* topic_id, int32_t partition) noexcept nogil
cdef bint map_add(
    PartitionMap* map, NamedPartition* named, const uint8_t* topic_id,
    int32_t partition) noexcept nogil
cdef void map_remove(PartitionMap* map, NamedPartition* named) noexcept nogil
cdef void map_free(PartitionMap* map) noexcept nogil
