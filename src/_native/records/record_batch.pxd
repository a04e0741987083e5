from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.kernel.cursor cimport Cursor

cdef enum:
    BATCH_HEADER_SIZE = 61
    BATCH_LENGTH_END = 12          # bytes before what the length field counts
    BATCH_CRC_START = 21           # the CRC covers everything from the attributes on
    BATCH_SIZE_MAX = 1 << 30       # above what settings allow; sums of sizes stay in 32 bits

    ATTRIBUTE_CODEC = 0x07
    ATTRIBUTE_LOG_APPEND_TIME = 0x08
    ATTRIBUTE_TRANSACTIONAL = 0x10
    ATTRIBUTE_CONTROL = 0x20
    ATTRIBUTE_DELETE_HORIZON = 0x40

# Why a batch is refused; each protocol has its own code for it.
cdef enum BatchStatus:
    BATCH_OK = 0
    BATCH_EMPTY            # no bytes at all
    BATCH_TRUNCATED        # fewer bytes than its length says, or than a header has
    BATCH_NOT_ALONE        # followed by more bytes: a second batch, or garbage
    BATCH_MAGIC            # not version 2
    BATCH_CRC
    BATCH_COUNT            # counts, offsets and records do not match
    BATCH_ATTRIBUTES       # a codec that does not exist, or a control batch from a client
    BATCH_LENGTH           # a length that no batch can have
    BATCH_RECORDS          # a record that does not match its lengths or its offset

cdef struct BatchInfo:
    int64_t base_offset
    size_t size            # of the whole batch, bytes
    int32_t leader_epoch
    int8_t magic
    uint32_t crc
    int16_t attributes
    int32_t last_offset_delta
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int16_t producer_epoch
    int32_t base_sequence
    int32_t record_count


cdef inline int64_t sum_wrapped(int64_t one, int64_t other) noexcept nogil:
    """Add two untrusted numbers: the sum wraps, as in Java."""
    return <int64_t>(<uint64_t>one + <uint64_t>other)


cdef inline int64_t batch_last_offset(const BatchInfo* info) noexcept nogil:
    return sum_wrapped(info.base_offset, info.last_offset_delta)


cdef str batch_status_text(BatchStatus status)
cdef BatchStatus batch_header(Cursor* cursor, BatchInfo* info) noexcept nogil
cdef BatchStatus batch_check_crc(const uint8_t* batch, BatchInfo* info) noexcept nogil
cdef bint batch_records_fit(const uint8_t* batch, BatchInfo* info) noexcept nogil
cdef BatchStatus batch_validate(const uint8_t* data, size_t size, BatchInfo* info) noexcept nogil
cdef void batch_store_header(uint8_t* batch, BatchInfo* info) noexcept nogil
cdef void batch_assign(uint8_t* batch, int64_t base_offset, int32_t leader_epoch) noexcept nogil
