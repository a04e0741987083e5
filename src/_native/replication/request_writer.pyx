"""The bytes of a Fetch request of a replica, version 17, within an incremental session (KIP-227).

    request      int32 size | header | int32 wait | int32 bytes min | int32 bytes max |
                 int8 isolation | int32 session id | int32 session epoch | topics | forgotten |
                 rack | tags
    header       int16 key | int16 version | int32 correlation id | client id | tags
    topics       [16 bytes id | [partition] | tags]
    partition    int32 index | int32 current leader epoch | int64 offset | int32 last epoch |
                 int64 log start offset | int32 bytes max | tags
    forgotten    [16 bytes id | [int32 index] | tags]
    tags         1: the replica (KIP-903): int32 broker id | int64 broker epoch | tags

The caller counts topics and partitions first, puts them in this order into memory that is large
enough, and ends with `put_request_end`, which writes the size.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from broker._native.kernel.big_endian cimport store_uint16, store_uint32, store_uint64
from broker._native.messages.fields cimport TOPIC_ID_SIZE, put_compact, put_count, put_tags

cdef enum:
    KEY_FETCH = 1
    VERSION = 17
    TAG_REPLICA = 1
    REPLICA_SIZE = 4 + 8 + 1
    SIZE_SIZE = 4
    CLIENT_ID_SIZE = 15

cdef const char* CLIENT_ID = b"polylog-replica"


cdef uint8_t* put_request_head(
        uint8_t* at, const RequestFields* fields, uint32_t topics) noexcept nogil:
    """Put everything before the topics; REQUEST_HEAD_SIZE_MAX bytes at most."""
    at += SIZE_SIZE
    store_uint16(at, KEY_FETCH)
    store_uint16(at + 2, VERSION)
    store_uint32(at + 4, <uint32_t>fields.correlation_id)
    store_uint16(at + 8, CLIENT_ID_SIZE)
    memcpy(at + 10, CLIENT_ID, CLIENT_ID_SIZE)
    at = put_tags(at + 10 + CLIENT_ID_SIZE, True)
    store_uint32(at, <uint32_t>fields.wait_ms)
    store_uint32(at + 4, <uint32_t>fields.bytes_min)
    store_uint32(at + 8, <uint32_t>fields.bytes_max)
    at[12] = 0                                     # up to the end, not to the last stable offset
    store_uint32(at + 13, <uint32_t>fields.session_id)
    store_uint32(at + 17, <uint32_t>fields.session_epoch)
    return put_count(at + 21, True, topics)


cdef uint8_t* put_topic(uint8_t* at, const uint8_t* topic_id, uint32_t partitions) noexcept nogil:
    """Put the head of a topic, also of a forgotten one; its partitions and its end follow."""
    memcpy(at, topic_id, TOPIC_ID_SIZE)
    return put_count(at + TOPIC_ID_SIZE, True, partitions)


cdef uint8_t* put_partition(uint8_t* at, const RequestPartition* partition) noexcept nogil:
    store_uint32(at, <uint32_t>partition.partition)
    store_uint32(at + 4, <uint32_t>partition.leader_epoch)
    store_uint64(at + 8, <uint64_t>partition.offset)
    store_uint32(at + 16, <uint32_t>partition.last_epoch)
    store_uint64(at + 20, <uint64_t>partition.log_start)
    store_uint32(at + 28, <uint32_t>partition.bytes_max)
    return put_tags(at + 32, True)


cdef uint8_t* put_topic_end(uint8_t* at) noexcept nogil:
    return put_tags(at, True)


cdef uint8_t* put_forgotten_count(uint8_t* at, uint32_t topics) noexcept nogil:
    """Put how many topics with forgotten partitions follow those with wanted ones."""
    return put_count(at, True, topics)


cdef uint8_t* put_forgotten(uint8_t* at, int32_t partition) noexcept nogil:
    store_uint32(at, <uint32_t>partition)
    return at + FORGOTTEN_PARTITION_SIZE


cdef uint8_t* put_request_end(
        uint8_t* start, uint8_t* at, const RequestFields* fields) noexcept nogil:
    """Put what follows the topics, and the size; REQUEST_END_SIZE_MAX bytes at most."""
    at = put_count(at, True, 0)                    # the rack: an empty string
    at = put_compact(at, 1)                        # one tagged field
    at = put_compact(at, TAG_REPLICA)
    at = put_compact(at, REPLICA_SIZE)
    store_uint32(at, <uint32_t>fields.replica_id)
    store_uint64(at + 4, <uint64_t>fields.replica_epoch)
    at = put_tags(at + 12, True)
    store_uint32(start, <uint32_t>(at - start - SIZE_SIZE))
    return at
