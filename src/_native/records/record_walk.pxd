"""One record of a version 2 batch, read in place: where its fields are, nothing copied.

The layout stands in record_batch.pyx. A record is taken from the batch whole, by its length, and
its fields may not leave it. Header only, like cursor.pxd: whoever cimports it compiles it in.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.kernel.cursor cimport (
    READ_DONE, Cursor, cursor_take, cursor_varint, cursor_varlong,
)


cdef struct Span:
    const uint8_t* start
    int32_t length           # -1: null


cdef struct RecordFields:
    int64_t timestamp_delta
    int32_t offset_delta
    int32_t header_count
    Span key
    Span value
    Cursor headers           # the bytes of all headers: header_take reads one after another


cdef inline bint span_take(Cursor* cursor, Span* span) noexcept nogil:
    """Read a varint length and step over as many bytes; False when they are not there."""
    if cursor_varint(cursor, &span.length) != READ_DONE or span.length < -1:
        return False
    if span.length <= 0:
        span.start = cursor.next
        return True
    span.start = cursor_take(cursor, <size_t>span.length)
    return span.start != NULL


cdef inline bint record_take(Cursor* records, RecordFields* fields) noexcept nogil:
    """Read the record at the cursor and step over it; False when it does not fit its length.

    Headers are counted and left to header_take; without any, the record must end where they would
    begin.
    """
    cdef Cursor record
    cdef int32_t length = 0
    if cursor_varint(records, &length) != READ_DONE or length < 0:
        return False
    record.next = cursor_take(records, <size_t>length)
    record.left = <size_t>length
    if record.next == NULL:
        return False
    if (cursor_take(&record, 1) == NULL
            or cursor_varlong(&record, &fields.timestamp_delta) != READ_DONE
            or cursor_varint(&record, &fields.offset_delta) != READ_DONE
            or not span_take(&record, &fields.key)
            or not span_take(&record, &fields.value)
            or cursor_varint(&record, &fields.header_count) != READ_DONE):
        return False
    fields.headers = record
    # A header has at least two lengths: a count is never believed beyond the bytes that are there.
    if fields.header_count == 0:
        return record.left == 0
    return fields.header_count > 0 and <size_t>fields.header_count <= record.left // 2


cdef inline bint header_take(Cursor* headers, Span* name, Span* value) noexcept nogil:
    """Read one header; its name is never null (KIP-82)."""
    return span_take(headers, name) and name.length >= 0 and span_take(headers, value)
