"""A map from topic id and partition to what is kept of that partition, which the caller owns.

The hash has a key: with a random one, a peer that names partitions as it likes cannot have them
share a slot.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

cdef enum:
    CAPACITY_MIN = 16


cdef inline NamedPartition** slot_of(
        const PartitionMap* map, const uint8_t* topic_id, int32_t partition) noexcept nogil:
    cdef uint64_t halves[2]
    cdef uint64_t number
    memcpy(halves, topic_id, TOPIC_ID_SIZE)
    number = (halves[0] ^ map.key) * <uint64_t>0x9E3779B97F4A7C15
    number = (number ^ (number >> 29) ^ halves[1]) * <uint64_t>0xBF58476D1CE4E5B9
    number = (number ^ (number >> 32) ^ <uint32_t>partition) * <uint64_t>0x94D049BB133111EB
    return &map.slots[<uint32_t>(number >> 32) & (map.capacity - 1)]


cdef void put_in(PartitionMap* map, NamedPartition* named) noexcept nogil:
    cdef NamedPartition** slot = slot_of(map, named.topic_id, named.partition)
    named.next_in_slot = slot[0]
    slot[0] = named


cdef bint grow(PartitionMap* map) noexcept nogil:
    cdef PartitionMap larger = map[0]
    cdef NamedPartition* named
    cdef NamedPartition* following
    cdef uint32_t i
    larger.capacity = max(2 * map.capacity, <uint32_t>CAPACITY_MIN)
    larger.slots = <NamedPartition**>calloc(larger.capacity, sizeof(NamedPartition*))
    if larger.slots == NULL:
        return False
    for i in range(map.capacity):
        named = map.slots[i]
        while named != NULL:
            following = named.next_in_slot
            put_in(&larger, named)
            named = following
    free(map.slots)
    map[0] = larger
    return True


cdef NamedPartition* map_find(
        const PartitionMap* map, const uint8_t* topic_id, int32_t partition) noexcept nogil:
    """Return the partition, or NULL."""
    cdef NamedPartition* named
    if map.capacity == 0:
        return NULL
    named = slot_of(map, topic_id, partition)[0]
    while named != NULL and (named.partition != partition
                             or memcmp(named.topic_id, topic_id, TOPIC_ID_SIZE) != 0):
        named = named.next_in_slot
    return named


cdef bint map_add(
        PartitionMap* map, NamedPartition* named, const uint8_t* topic_id,
        int32_t partition) noexcept nogil:
    """Name and add a partition that is not there; return False without memory."""
    if map.count >= map.capacity and not grow(map):
        return False
    memcpy(named.topic_id, topic_id, TOPIC_ID_SIZE)
    named.partition = partition
    put_in(map, named)
    map.count += 1
    return True


cdef void map_remove(PartitionMap* map, NamedPartition* named) noexcept nogil:
    cdef NamedPartition** slot = slot_of(map, named.topic_id, named.partition)
    while slot[0] != named:
        slot = &slot[0].next_in_slot
    slot[0] = named.next_in_slot
    map.count -= 1


cdef void map_free(PartitionMap* map) noexcept nogil:
    """Free the memory of a map without partitions."""
    free(map.slots)
    map.slots = NULL
    map.capacity = 0
