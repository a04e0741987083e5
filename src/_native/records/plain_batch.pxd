from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.records.record_batch cimport BatchInfo

# A batch under construction: uncompressed records with one timestamp and without a producer id. The
# caller owns it, zeroed at first; its memory is reused by the next batch.
cdef struct PlainBatch:
    uint8_t* data
    size_t size
    size_t capacity
    BatchInfo info            # complete once it is finished; no validation is needed


cdef bint plain_begin(
    PlainBatch* batch, int64_t timestamp_ms, size_t size_expected) noexcept nogil
cdef size_t plain_record_size(
    const PlainBatch* batch, int32_t key_size, int32_t value_size) noexcept nogil
cdef bint plain_add(
    PlainBatch* batch, const uint8_t* key, int32_t key_size,
    const uint8_t* value, int32_t value_size) noexcept nogil
cdef bint plain_add_headed(
    PlainBatch* batch, const uint8_t* key, int32_t key_size,
    const uint8_t* value, int32_t value_size,
    const uint8_t* headers, size_t headers_size) noexcept nogil
cdef uint8_t* plain_header(
    uint8_t* at, const uint8_t* name, int32_t name_size,
    const uint8_t* value, int32_t value_size) noexcept nogil
cdef void plain_finish(PlainBatch* batch) noexcept nogil
cdef void plain_trim(PlainBatch* batch) noexcept nogil
