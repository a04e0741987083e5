"""Builds batches of records from protocols other than Kafka's (layout: record_batch.pyx).

    plain_begin -> plain_add, once per record -> plain_finish -> PartitionLog.append_batch
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from broker._native.kernel.growing cimport make_capacity
from broker._native.kernel.varint cimport store_varint, varint_size, zigzag
from broker._native.records.record_batch cimport (
    BATCH_HEADER_SIZE, BATCH_SIZE_MAX, batch_store_header,
)
from broker._native.records.record_store cimport content_size, store_content

from broker.model import limits

cdef enum:
    LENGTH_MAX = 10

cdef uint8_t NO_HEADERS = 0
cdef size_t PLAIN_BATCH_BYTES_KEPT = limits.PLAIN_BATCH_BYTES_KEPT


cdef bint make_room(PlainBatch* batch, size_t more) noexcept nogil:
    cdef size_t needed = batch.size + more
    return needed <= BATCH_SIZE_MAX and make_capacity(
        <void**>&batch.data, &batch.capacity, needed)


cdef bint plain_begin(
        PlainBatch* batch, int64_t timestamp_ms, size_t size_expected) noexcept nogil:
    """Begin a batch without records; False without memory for `size_expected` bytes."""
    batch.size = 0
    if size_expected > BATCH_SIZE_MAX or not make_room(batch, BATCH_HEADER_SIZE + size_expected):
        return False
    batch.size = BATCH_HEADER_SIZE
    memset(&batch.info, 0, sizeof(BatchInfo))
    batch.info.leader_epoch = -1
    batch.info.magic = 2
    batch.info.base_timestamp = batch.info.max_timestamp = timestamp_ms
    batch.info.producer_id = -1
    batch.info.producer_epoch = -1
    batch.info.base_sequence = -1
    return True


cdef inline size_t record_length(
        int32_t delta, int32_t key_size, int32_t value_size) noexcept nogil:
    # Attributes, timestamp delta, offset delta, key, value, header count.
    return <size_t>(1 + 1 + varint_size(zigzag(delta))
                    + content_size(key_size) + content_size(value_size) + 1)


cdef size_t plain_record_size(
        const PlainBatch* batch, int32_t key_size, int32_t value_size) noexcept nogil:
    """Return how many bytes a record would take as the next one of a batch."""
    cdef size_t length = record_length(batch.info.record_count, key_size, value_size)
    return <size_t>varint_size(zigzag(<int64_t>length)) + length


cdef bint plain_add(
        PlainBatch* batch, const uint8_t* key, int32_t key_size,
        const uint8_t* value, int32_t value_size) noexcept nogil:
    """Add a record; a size of -1 is null. False without memory, or when the batch is too large."""
    return plain_add_headed(batch, key, key_size, value, value_size, &NO_HEADERS, 1)


cdef bint plain_add_headed(
        PlainBatch* batch, const uint8_t* key, int32_t key_size,
        const uint8_t* value, int32_t value_size,
        const uint8_t* headers, size_t headers_size) noexcept nogil:
    """Add a record with encoded headers, preceded by their count (`plain_header`)."""
    cdef int32_t delta = batch.info.record_count
    cdef size_t length = record_length(delta, key_size, value_size) - 1 + headers_size
    cdef uint8_t* at
    if delta == INT32_MAX or not make_room(batch, LENGTH_MAX + length):
        return False
    at = store_varint(batch.data + batch.size, zigzag(<int64_t>length))
    at[0] = 0                                        # attributes
    at[1] = 0                                        # timestamp delta
    at = store_varint(at + 2, zigzag(delta))
    at = store_content(at, key, key_size)
    at = store_content(at, value, value_size)
    memcpy(at, headers, headers_size)
    batch.size = <size_t>(at + headers_size - batch.data)
    batch.info.record_count += 1
    return True


cdef uint8_t* plain_header(
        uint8_t* at, const uint8_t* name, int32_t name_size,
        const uint8_t* value, int32_t value_size) noexcept nogil:
    """Store a header, which takes at most 10 bytes more than its content; return its end."""
    return store_content(store_content(at, name, name_size), value, value_size)


cdef void plain_finish(PlainBatch* batch) noexcept nogil:
    """Write the header of a batch with at least one record."""
    batch.info.size = batch.size
    batch.info.last_offset_delta = batch.info.record_count - 1
    batch_store_header(batch.data, &batch.info)


cdef void plain_trim(PlainBatch* batch) noexcept nogil:
    """Free the memory of a batch if it is larger than PLAIN_BATCH_BYTES_KEPT."""
    if batch.capacity > PLAIN_BATCH_BYTES_KEPT:
        free(batch.data)
        batch.data = NULL
        batch.capacity = 0


def plain_batch(records, *, int64_t timestamp_ms):
    """Return the batch of (key, value) records, each bytes or None.

    Raises:
        MemoryError: out of memory, or the batch would be too large.
        ValueError: there are no records.
    """
    cdef PlainBatch batch
    cdef bint is_good
    memset(&batch, 0, sizeof(PlainBatch))
    try:
        is_good = plain_begin(&batch, timestamp_ms, 0)
        for key, value in records:
            is_good = is_good and add_objects(&batch, key, value)
        if not is_good:
            raise MemoryError("no memory for the batch, or it would be too large")
        if batch.info.record_count == 0:
            raise ValueError("no records, expected at least one")
        plain_finish(&batch)
        return PyBytes_FromStringAndSize(<const char*>batch.data, <Py_ssize_t>batch.size)
    finally:
        free(batch.data)


cdef bint add_objects(PlainBatch* batch, bytes key, bytes value) except -1:
    cdef Py_ssize_t key_size = -1 if key is None else PyBytes_GET_SIZE(key)
    cdef Py_ssize_t value_size = -1 if value is None else PyBytes_GET_SIZE(value)
    if key_size > BATCH_SIZE_MAX or value_size > BATCH_SIZE_MAX:
        return False
    return plain_add(
        batch,
        NULL if key is None else <const uint8_t*>PyBytes_AS_STRING(key), <int32_t>key_size,
        NULL if value is None else <const uint8_t*>PyBytes_AS_STRING(value), <int32_t>value_size)
