"""Reads rows for an encoder from columns of the caller.

All reads go through `row_read`. What it stores in a Row has been compared with the bounds of the
buffer it points into, and is read only once: if the owner changes a column meanwhile, other records
are encoded, and nothing else happens.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.kernel.growing cimport make_capacity


# Bytes that may be null: then the size is -1.
cdef struct Content:
    const uint8_t* data
    int64_t size

cdef struct Header:
    Content key
    Content value

cdef struct Headers:
    int64_t count
    size_t capacity          # in bytes
    Header* items            # for free()

# Small, and only passed to inlined functions, so that a loop keeps it in registers.
cdef struct Row:
    Content key
    Content value
    int64_t offset
    int64_t timestamp        # ms
    bint has_timestamp
    Headers* headers

cdef enum ContentForm:
    CONTENT_NULL = 0     # no such column: every row is null
    CONTENT_SPANS        # a start and a length, -1 for null
    CONTENT_ENDS_32      # Arrow's binary and string: row i is from ends[i] to ends[i + 1]
    CONTENT_ENDS_64      # the same of large_binary and large_string

# Which rows are not null: a bit per row, lowest first.
cdef struct Validity:
    const uint8_t* bits          # NULL: no row is null
    int64_t first                # the bit of row 0

cdef struct ContentColumn:
    int form
    const uint8_t* data
    int64_t data_size
    const int32_t* starts
    const int32_t* lengths
    const void* ends             # int32 or int64, by the form
    Validity validity

cdef struct HeaderColumns:
    int form                     # of the ends below, never spans
    const void* ends
    bint starts_at_zero          # row 0 is from 0 to ends[0], as in our own columns
    Validity validity
    int64_t count                # of headers
    ContentColumn keys
    ContentColumn values

cdef struct Columns:
    int64_t count
    ContentColumn keys
    ContentColumn values
    HeaderColumns headers
    const int64_t* offsets       # NULL: there are none
    const int64_t* timestamps
    Validity timestamps_validity
    int64_t timestamp_units      # units per millisecond

cdef enum SourceStatus:
    SOURCE_READ = 0
    SOURCE_KEY_OUTSIDE       # of the buffer it points into
    SOURCE_VALUE_OUTSIDE
    SOURCE_HEADERS_OUTSIDE
    SOURCE_HEADER_KEY_OUTSIDE
    SOURCE_HEADER_KEY_NULL
    SOURCE_HEADER_VALUE_OUTSIDE
    SOURCE_NO_MEMORY


cdef inline bint is_valid(const Validity* validity, int64_t row) noexcept nogil:
    cdef int64_t bit = validity.first + row
    return validity.bits == NULL or (validity.bits[bit >> 3] >> (bit & 7)) & 1


cdef inline int64_t end_at(int form, const void* ends, int64_t place) noexcept nogil:
    return (<const int32_t*>ends)[place] if form == CONTENT_ENDS_32 else (
        (<const int64_t*>ends)[place])


cdef inline bint content_read(
        const ContentColumn* column, int64_t row, Content* content) noexcept nogil:
    """Store the bytes of a row; False when they are not within the column's buffer."""
    cdef int64_t start, end
    content.data = NULL
    content.size = -1
    if column.form == CONTENT_NULL or not is_valid(&column.validity, row):
        return True
    if column.form == CONTENT_SPANS:
        end = column.lengths[row]
        if end == -1:
            return True
        start = column.starts[row]
        if end < 0:
            return False
        end += start
    else:
        start = end_at(column.form, column.ends, row)
        end = end_at(column.form, column.ends, row + 1)
    if start < 0 or end < start or end > column.data_size:
        return False
    content.data = column.data + start
    content.size = end - start
    return True


cdef inline bint headers_reserve(Headers* headers, int64_t count) noexcept nogil:
    """Allocate memory for `count` headers; False when there is none."""
    return make_capacity(
        <void**>&headers.items, &headers.capacity, <size_t>count * sizeof(Header))


cdef inline SourceStatus headers_read(
        const HeaderColumns* columns, int64_t row, Headers* headers) noexcept nogil:
    cdef int64_t place = row - 1 if columns.starts_at_zero else row
    cdef int64_t start = 0, end, i
    headers.count = 0
    if not is_valid(&columns.validity, row):
        return SOURCE_READ
    if place >= 0:
        start = end_at(columns.form, columns.ends, place)
    end = end_at(columns.form, columns.ends, place + 1)
    if start < 0 or end < start or end > columns.count:
        return SOURCE_HEADERS_OUTSIDE
    if not headers_reserve(headers, end - start):
        return SOURCE_NO_MEMORY
    for i in range(start, end):
        if not content_read(&columns.keys, i, &headers.items[i - start].key):
            return SOURCE_HEADER_KEY_OUTSIDE
        if headers.items[i - start].key.size < 0:
            return SOURCE_HEADER_KEY_NULL
        if not content_read(&columns.values, i, &headers.items[i - start].value):
            return SOURCE_HEADER_VALUE_OUTSIDE
    headers.count = end - start
    return SOURCE_READ


cdef inline SourceStatus row_read(const Columns* columns, int64_t number, Row* row) noexcept nogil:
    """Read row `number`, which is below the count of the columns."""
    if not content_read(&columns.keys, number, &row.key):
        return SOURCE_KEY_OUTSIDE
    if not content_read(&columns.values, number, &row.value):
        return SOURCE_VALUE_OUTSIDE
    if columns.offsets != NULL:
        row.offset = columns.offsets[number]
    row.has_timestamp = columns.timestamps != NULL and is_valid(
        &columns.timestamps_validity, number)
    if row.has_timestamp:
        row.timestamp = floor_divide(columns.timestamps[number], columns.timestamp_units)
    if columns.headers.form == CONTENT_NULL:
        row.headers.count = 0
        return SOURCE_READ
    return headers_read(&columns.headers, number, row.headers)


cdef inline int64_t floor_divide(int64_t value, int64_t by) noexcept nogil:
    # Round a timestamp before 1970 down, not towards zero.
    cdef int64_t quotient
    if by == 1:
        return value
    quotient = value / by
    return quotient - 1 if value < quotient * by else quotient


cdef class ColumnSource:
    cdef Columns columns
    cdef readonly Py_ssize_t count
    cdef list held               # views that keep the memory of the columns alive

    cdef ContentColumn* new_column(self, str name) except NULL
    cdef HeaderColumns* new_headers(self) except NULL
    cdef int count_headers(self, Py_ssize_t count) except -1
    cdef int set_data(self, ContentColumn* column, object data) except -1
    cdef Validity hold_bits(
        self, str name, object validity, Py_ssize_t first, Py_ssize_t count) except *
    cdef const Py_buffer* hold_numbers(
        self, str name, object array, Py_ssize_t item_size, Py_ssize_t count) except NULL
    cdef const Py_buffer* hold(self, object exporter) except NULL


cdef object source_error(SourceStatus status, int64_t row)
