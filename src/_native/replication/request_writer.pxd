from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    # At most, of the parts of a request.
    REQUEST_HEAD_SIZE_MAX = 128
    REQUEST_TOPIC_SIZE_MAX = 16 + 5 + 1
    REQUEST_PARTITION_SIZE = 4 + 4 + 8 + 4 + 8 + 4 + 1
    FORGOTTEN_PARTITION_SIZE = 4
    REQUEST_END_SIZE_MAX = 64

# What a request has besides its partitions.
cdef struct RequestFields:
    int32_t correlation_id
    int32_t wait_ms
    int32_t bytes_min
    int32_t bytes_max
    int32_t session_id
    int32_t session_epoch
    int32_t replica_id
    int64_t replica_epoch

# One partition, with the position from which its replica continues.
cdef struct RequestPartition:
    int32_t partition
    int32_t leader_epoch
    int64_t offset
    int32_t last_epoch         # of the batch before `offset`; -1: there is none
    int64_t log_start
    int32_t bytes_max


cdef uint8_t* put_request_head(
    uint8_t* at, const RequestFields* fields, uint32_t topics) noexcept nogil
cdef uint8_t* put_topic(uint8_t* at, const uint8_t* topic_id, uint32_t partitions) noexcept nogil
cdef uint8_t* put_partition(uint8_t* at, const RequestPartition* partition) noexcept nogil
cdef uint8_t* put_topic_end(uint8_t* at) noexcept nogil
cdef uint8_t* put_forgotten_count(uint8_t* at, uint32_t topics) noexcept nogil
cdef uint8_t* put_forgotten(uint8_t* at, int32_t partition) noexcept nogil
cdef uint8_t* put_request_end(
    uint8_t* start, uint8_t* at, const RequestFields* fields) noexcept nogil
