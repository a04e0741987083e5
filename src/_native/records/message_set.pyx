"""Encodes message sets of magic 0 and 1, for older clients (layout: legacy_message.pxd).

A set is measured, then written. The owner of the columns may change them in between, so each
message is written only if it fits into the measured size.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from broker._native.kernel.big_endian cimport store_uint32, store_uint64
from broker._native.kernel.checksum cimport crc32_extend
from broker._native.records.column_source cimport (
    SOURCE_READ, Columns, ColumnSource, Content, Headers, Row, SourceStatus, row_read,
    source_error,
)
from broker._native.records.legacy_message cimport MESSAGE_CRC_START, MESSAGE_SIZE_MIN
from broker._native.records.record_batch cimport BATCH_SIZE_MAX

from broker.model.errors import Corrupt, LimitExceeded

cdef enum:
    MESSAGE_LENGTH_END = 12      # bytes before what the size field counts
    TIMESTAMP_SIZE = 8
    NO_TIMESTAMP = -1


cdef inline int64_t message_size(const Row* row, int magic) noexcept nogil:
    return (MESSAGE_SIZE_MIN + TIMESTAMP_SIZE * magic
            + max(row.key.size, 0) + max(row.value.size, 0))


cdef inline uint8_t* store_long_content(uint8_t* into, const Content* content) noexcept nogil:
    store_uint32(into, <uint32_t>content.size)
    into += 4
    if content.size <= 0:
        return into
    memcpy(into, content.data, <size_t>content.size)
    return into + content.size


cdef void store_message(
        uint8_t* into, const Row* row, int64_t offset, int magic, int attributes) noexcept nogil:
    """Store a message in `message_size` bytes."""
    cdef int64_t size = message_size(row, magic)
    cdef uint8_t* next = into + MESSAGE_CRC_START
    store_uint64(into, <uint64_t>offset)
    store_uint32(into + 8, <uint32_t>(size - MESSAGE_LENGTH_END))
    next[0] = <uint8_t>magic
    next[1] = <uint8_t>attributes
    next += 2
    if magic:
        store_uint64(next, <uint64_t>row.timestamp if row.has_timestamp else <uint64_t>NO_TIMESTAMP)
        next += TIMESTAMP_SIZE
    next = store_long_content(next, &row.key)
    store_long_content(next, &row.value)
    store_uint32(into + 12, crc32_extend(
        0, into + MESSAGE_CRC_START, <size_t>(size - MESSAGE_CRC_START)))


cdef int64_t messages_size(const Columns* columns, Row* row, int magic, int64_t limit,
                           int64_t* number, SourceStatus* status) noexcept nogil:
    """Return the size of all messages; counting stops at an invalid row and above the limit."""
    cdef int64_t size = 0
    status[0] = SOURCE_READ
    number[0] = 0
    while number[0] < columns.count:
        status[0] = row_read(columns, number[0], row)
        if status[0] != SOURCE_READ:
            return size
        size += message_size(row, magic)
        if size > limit:
            return size
        number[0] += 1
    return size


cdef bint store_messages(uint8_t* into, int64_t size, const Columns* columns, Row* row, int magic,
                         int attributes, bint are_relative) noexcept nogil:
    """Store the measured messages; False when the columns have changed meanwhile."""
    cdef int64_t number, needed
    cdef uint64_t first = 0
    for number in range(columns.count):
        if row_read(columns, number, row) != SOURCE_READ:
            return False
        if are_relative and number == 0:
            first = <uint64_t>row.offset
        needed = message_size(row, magic)
        if needed > size:
            return False
        store_message(into, row, <int64_t>(<uint64_t>row.offset - first), magic, attributes)
        into += needed
        size -= needed
    return size == 0


def encode_messages(ColumnSource source not None, *, int magic, int attributes=0,
                    bint are_relative=False, int64_t bytes_max=BATCH_SIZE_MAX):
    """Return a message of magic 0 or 1 for every row, with the row's offset.

    Relative offsets are relative to the first row's. Headers are dropped; a row without a timestamp
    gets -1.
    LimitExceeded above `bytes_max`, Corrupt for rows outside of their buffers.
    """
    cdef Columns columns = source.columns
    cdef Headers headers = Headers(0, 0, NULL)
    cdef Row row
    cdef SourceStatus status
    cdef int64_t size, number
    cdef uint8_t* into
    cdef bint is_stored
    cdef bytes messages
    check(magic, bytes_max)
    if columns.count == 0:
        return b""
    if columns.offsets == NULL:
        raise ValueError("no column named offset")
    columns.headers.form = 0    # not read at all
    row.headers = &headers
    with nogil:
        size = messages_size(&columns, &row, magic, bytes_max, &number, &status)
    if status != SOURCE_READ:
        raise source_error(status, number)
    if size > bytes_max:
        raise LimitExceeded(f"row {number}: a message set of {size} bytes or more, allowed are "
                            f"{bytes_max}")
    messages = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    into = <uint8_t*>PyBytes_AS_STRING(messages)
    with nogil:
        is_stored = store_messages(into, size, &columns, &row, magic, attributes, are_relative)
    if not is_stored:
        raise Corrupt("the columns have changed while they were read")
    return messages


def encode_message(bytes value not None, *, int magic, int attributes, int64_t offset,
                   int64_t timestamp):
    """Return one message without a key: the wrapper of a compressed set."""
    cdef Headers headers = Headers(0, 0, NULL)
    cdef Row row
    cdef int64_t size
    cdef bytes message
    row.key.size = -1
    row.value.data = <const uint8_t*>PyBytes_AS_STRING(value)
    row.value.size = len(value)
    row.has_timestamp = True
    row.timestamp = timestamp
    row.headers = &headers
    check(magic, row.value.size)
    size = message_size(&row, magic)
    message = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    store_message(<uint8_t*>PyBytes_AS_STRING(message), &row, offset, magic, attributes)
    return message


cdef int check(int magic, int64_t size) except -1:
    if not 0 <= magic <= 1:
        raise ValueError(f"magic {magic}: expected 0 or 1")
    if not 0 <= size <= BATCH_SIZE_MAX:
        raise ValueError(f"{size} bytes of messages: expected at most {BATCH_SIZE_MAX}")
    return 0
