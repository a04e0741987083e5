"""Reads records of a version 2 batch in place, without copies (layout: record_batch.pyx).

A record is taken from the batch as a whole, by its length, and its fields must be within it. Header
only, like cursor.pxd.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.kernel.cursor cimport (
    READ_DONE, VARINT_SIZE_MAX, Cursor, cursor_take, cursor_varint, cursor_varlong,
    granted_varint, granted_varlong,
)

cdef enum:
    # Attributes, a varlong and two varints; also more than a length takes.
    HEAD_SIZE_MAX = 1 + 10 + 5 + 5


cdef struct Span:
    const uint8_t* start
    int32_t length           # -1: null


cdef struct RecordFields:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t header_count
    Span key
    Span value
    Cursor headers           # the bytes of all headers, for header_take


cdef inline bint span_take(Cursor* cursor, Span* span) noexcept nogil:
    """Read a varint length and step over as many bytes; False when fewer are left."""
    cdef int size
    cdef int32_t length = 0
    if cursor.left > VARINT_SIZE_MAX:
        size = granted_varint(cursor.next, &length)
        if size == 0:
            return False
        cursor.next += size
        cursor.left -= <size_t>size
    elif cursor_varint(cursor, &length) != READ_DONE:
        return False
    span.length = length
    span.start = cursor.next
    if length <= 0:
        return length >= -1
    return cursor_take(cursor, <size_t>length) != NULL


cdef inline bint record_take(Cursor* records, RecordFields* fields) noexcept nogil:
    """Read the record at the cursor and step over it; False when it does not match its length.

    Of the headers only the count is read, the rest by header_take; without headers, the record must
    end there.
    """
    cdef Cursor record
    cdef int32_t length = 0
    cdef int size
    if records.left > HEAD_SIZE_MAX:
        size = granted_varint(records.next, &length)
        if size == 0:
            return False
        records.next += size
        records.left -= <size_t>size
    elif cursor_varint(records, &length) != READ_DONE:
        return False
    if length < 0:
        return False
    record.next = cursor_take(records, <size_t>length)
    record.left = <size_t>length
    if record.next == NULL:
        return False
    if record.left > HEAD_SIZE_MAX:
        if not head_take_granted(&record, fields):
            return False
    elif not head_take(&record, fields):
        return False
    fields.headers = record
    # A header has at least two lengths, which bounds the count by the bytes left.
    if fields.header_count == 0:
        return record.left == 0
    return fields.header_count > 0 and <size_t>fields.header_count <= record.left // 2


cdef inline bint head_take(Cursor* record, RecordFields* fields) noexcept nogil:
    """Read everything before the headers."""
    return (cursor_take(record, 1) != NULL
            and cursor_varlong(record, &fields.timestamp_delta) == READ_DONE
            and cursor_varint(record, &fields.offset_delta) == READ_DONE
            and span_take(record, &fields.key)
            and span_take(record, &fields.value)
            and cursor_varint(record, &fields.header_count) == READ_DONE)


cdef inline bint head_take_granted(Cursor* record, RecordFields* fields) noexcept nogil:
    """Do the same when HEAD_SIZE_MAX bytes are left: one bounds check for all up to the key."""
    cdef const uint8_t* next = record.next + 1    # attributes: none are defined
    cdef int32_t key_length = 0
    cdef int sizes
    cdef int size = granted_varlong(next, &fields.timestamp_delta)
    next += size
    sizes = size
    size = granted_varint(next, &fields.offset_delta)
    next += size
    sizes = sizes if size else 0
    size = granted_varint(next, &key_length)
    next += size
    if sizes == 0 or size == 0 or key_length < -1:
        return False
    record.left -= <size_t>(next - record.next)
    record.next = next
    fields.key.length = key_length
    fields.key.start = next
    if key_length > 0 and cursor_take(record, <size_t>key_length) == NULL:
        return False
    if not span_take(record, &fields.value):
        return False
    if record.left == 1 and record.next[0] == 0:    # no headers, as in most records
        record.next += 1
        record.left = 0
        fields.header_count = 0
        return True
    return cursor_varint(record, &fields.header_count) == READ_DONE


cdef inline bint record_take_at(
        Cursor* records, int32_t index, RecordFields* fields) noexcept nogil:
    """Read the record at the cursor, which must have offset delta `index`, with all its headers.

    False when it or one of its headers does not match its length, or the offset is another one.
    """
    cdef Span name, value
    cdef int32_t _i
    if not record_take(records, fields) or fields.offset_delta != index:
        return False
    for _i in range(fields.header_count):
        if not header_take(&fields.headers, &name, &value):
            return False
    return fields.headers.left == 0


cdef inline bint records_are_valid(Cursor records, int32_t count) noexcept nogil:
    """Return whether these are exactly `count` whole records, with the offset deltas from 0 on."""
    cdef RecordFields fields
    cdef int32_t index
    for index in range(count):
        if not record_take_at(&records, index, &fields):
            return False
    return records.left == 0


cdef inline bint header_take(Cursor* headers, Span* name, Span* value) noexcept nogil:
    """Read one header; its name is never null (KIP-82)."""
    return span_take(headers, name) and name.length >= 0 and span_take(headers, value)
