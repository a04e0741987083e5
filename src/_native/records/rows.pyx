"""Decodes records to rows of numbers: offset, timestamp, and the spans of key, value and headers.

The inner loop of every columnar read. It copies no byte of a record and allocates nothing: the
arrays have space for the batch's record count, which was checked against the size of its records
(an empty record takes RECORD_BYTES_MIN bytes).

A KeyFilter selects records by their keys: those with a prefix, or those of a set. The set is an
open-addressing table, at most half full, whose slots point into the caller's bytes objects; a
lookup hashes the key in the record without creating an object.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp

from cython cimport final

from broker._native.kernel.checksum cimport crc32c_extend
from broker._native.kernel.cursor cimport Cursor
from broker._native.records.record_batch cimport (
    ATTRIBUTE_LOG_APPEND_TIME, BatchInfo, sum_wrapped,
)
from broker._native.records.record_walk cimport RecordFields, Span, header_take, record_take


cdef inline void put_span(
    const SpanColumn* to, Py_ssize_t row, const Span* span, const uint8_t* origin,
) noexcept nogil:
    to.start[row] = <int32_t>(span.start - origin)
    to.length[row] = span.length


cdef inline void put_fields(
    const Rows* to, Py_ssize_t row, const RowBasis* basis, const Span* key, const Span* value,
) noexcept nogil:
    """Store the requested fields of a row, without its headers."""
    if to.offset != NULL:
        to.offset[row] = basis.offset
    if to.timestamp != NULL:
        to.timestamp[row] = basis.timestamp
    if to.timestamp_type != NULL:
        to.timestamp_type[row] = basis.timestamp_type
    if to.key.start != NULL:
        put_span(&to.key, row, key, to.origin)
    if to.value.start != NULL:
        put_span(&to.value, row, value, to.origin)


cdef RowStatus rows_of_batch(
    const uint8_t* payload, size_t size, const BatchInfo* info, const Filter* filter, Rows* rows,
) noexcept nogil:
    """Add a row for each record of a decompressed version 2 batch that the filter selects."""
    cdef RecordFields fields
    cdef Cursor cursor
    cdef Rows to = rows[0]    # a local copy: its members stay in registers
    cdef Py_ssize_t row = rows.count
    cdef RowBasis basis
    cdef bint is_append_time = info.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0
    cdef bint is_filtered = filter.is_set
    # The four columns that most readers request, and no others: one branch instead of six.
    cdef bint is_usual = (
        to.offset != NULL and to.timestamp != NULL and to.key.start != NULL
        and to.value.start != NULL and to.timestamp_type == NULL and to.header_end == NULL)
    cdef RowStatus status
    cdef int32_t i
    basis.timestamp_type = is_append_time
    rows.bad_record = 0
    cursor.next = payload
    cursor.left = size
    for i in range(info.record_count):
        if not record_take(&cursor, &fields):
            rows.bad_record = i
            return ROWS_BAD_RECORD
        basis.offset = sum_wrapped(info.base_offset, fields.offset_delta)
        basis.timestamp = info.max_timestamp
        if not is_append_time:
            basis.timestamp = sum_wrapped(info.base_timestamp, fields.timestamp_delta)
        if is_filtered and not filter_keeps(filter, &basis, &fields.key):
            continue
        if is_usual:
            to.offset[row] = basis.offset
            to.timestamp[row] = basis.timestamp
            put_span(&to.key, row, &fields.key, to.origin)
            put_span(&to.value, row, &fields.value, to.origin)
            row += 1
            continue
        put_fields(&to, row, &basis, &fields.key, &fields.value)
        if to.header_end != NULL:
            status = headers_put(&fields, rows)
            if status != ROWS_OK:
                rows.bad_record = i
                return status
            to.header_end[row] = <int32_t>rows.header_count
        row += 1
    if cursor.left > 0:
        return ROWS_LEFT_OVER
    rows.count = row
    return ROWS_OK


cdef RowStatus headers_put(RecordFields* fields, Rows* rows) noexcept nogil:
    cdef Span name, value
    cdef Py_ssize_t to = rows.header_count
    cdef int32_t _i
    if fields.header_count > rows.header_capacity - to:
        return ROWS_HEADERS_FULL
    for _i in range(fields.header_count):
        if not header_take(&fields.headers, &name, &value):
            return ROWS_BAD_RECORD
        put_span(&rows.header_key, to, &name, rows.origin)
        put_span(&rows.header_value, to, &value, rows.origin)
        to += 1
    rows.header_count = to
    return ROWS_OK if fields.headers.left == 0 else ROWS_BAD_RECORD


cdef RowStatus row_put(
    const RowBasis* basis, const Span* key, const Span* value, const Filter* filter, Rows* rows,
) noexcept nogil:
    """Add the row of one message of a message set, which has no headers."""
    cdef Py_ssize_t row = rows.count
    if filter.is_set and not filter_keeps(filter, basis, key):
        return ROWS_OK
    put_fields(rows, row, basis, key, value)
    if rows.header_end != NULL:
        rows.header_end[row] = <int32_t>rows.header_count
    rows.count += 1
    return ROWS_OK


# ---- the filter ----------------------------------------------------------------------------------

cdef bint filter_keeps(
    const Filter* filter, const RowBasis* basis, const Span* key,
) noexcept nogil:
    if basis.offset < filter.min_offset or basis.offset > filter.max_offset:
        return False
    if basis.timestamp < filter.min_timestamp or basis.timestamp > filter.max_timestamp:
        return False
    if not filter.has_keys:
        return True
    if key.length < 0:
        return False
    if filter.key_table != NULL:
        return key_find(filter.key_table, filter.key_mask, key).start != NULL
    return key.length >= filter.prefix.length and memcmp(
        key.start, filter.prefix.start, <size_t>filter.prefix.length) == 0


cdef Span* key_find(Span* table, size_t mask, const Span* key) noexcept nogil:
    """Return the key's slot, or an empty one; the table must have an empty slot."""
    cdef size_t slot = crc32c_extend(0, key.start, <size_t>key.length) & mask
    while table[slot].start != NULL and (
            table[slot].length != key.length
            or memcmp(table[slot].start, key.start, <size_t>key.length) != 0):
        slot = (slot + 1) & mask
    return &table[slot]


# ---- keys ---------------------------------------------------------------------------------------

@final
cdef class KeyFilter:
    """Selects by a prefix if created from bytes, else by a set of whole keys."""

    def __cinit__(self, keys not None):
        cdef size_t slots = 2
        if isinstance(keys, bytes):
            self.keys = keys
            self.prefix = span_of(keys)
            return
        self.keys = frozenset(keys)
        while slots < 2 * <size_t>len(self.keys):
            slots *= 2
        self.table = <Span*>calloc(slots, sizeof(Span))
        if self.table == NULL:
            raise MemoryError
        self.mask = slots - 1
        for key in self.keys:
            self.add(key)

    def __dealloc__(self):
        free(self.table)

    cdef int add(self, key) except -1:
        cdef Span span
        if not isinstance(key, bytes):
            raise TypeError(f"a key filter takes bytes, not {key!r:.80}")
        span = span_of(key)
        key_find(self.table, self.mask, &span)[0] = span
        return 0

    cdef void apply(self, Filter* filter) noexcept:
        filter.is_set = True
        filter.has_keys = True
        filter.prefix = self.prefix
        filter.key_table = self.table
        filter.key_mask = self.mask


cdef Span span_of(bytes key):
    cdef Span span
    if PyBytes_GET_SIZE(key) > INT32_MAX:
        raise ValueError(f"a key of {len(key)} bytes: no record has one above {INT32_MAX}")
    span.start = <const uint8_t*>PyBytes_AS_STRING(key)
    span.length = <int32_t>PyBytes_GET_SIZE(key)
    return span
