from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from broker._native.records.record_batch cimport BatchInfo
from broker._native.records.record_walk cimport Span

# Selects records; by default, all of them.
cdef struct Filter:
    bint is_set
    int64_t min_offset
    int64_t max_offset       # inclusive, like the other bounds
    int64_t min_timestamp
    int64_t max_timestamp
    bint has_keys            # the key must begin with the prefix, or be in the table
    Span prefix
    Span* key_table          # open addressing; start NULL: an empty slot
    size_t key_mask

# The starts and lengths of one field's values; NULL for a column that is not requested.
cdef struct SpanColumn:
    int32_t* start
    int32_t* length

# The arrays for the next row, which must be large enough; NULL for a column that is not requested.
cdef struct Rows:
    const uint8_t* origin    # spans are relative to it
    Py_ssize_t count
    int64_t* offset
    int64_t* timestamp
    int8_t* timestamp_type
    SpanColumn key
    SpanColumn value
    int32_t* header_end      # NULL: headers are skipped
    SpanColumn header_key
    SpanColumn header_value
    Py_ssize_t header_count
    Py_ssize_t header_capacity
    Py_ssize_t bad_record    # index in the batch of the invalid record

cdef enum RowStatus:
    ROWS_OK = 0
    ROWS_BAD_RECORD          # a record does not match its lengths
    ROWS_LEFT_OVER           # bytes follow the last record
    ROWS_HEADERS_FULL        # the arrays of headers are full: no row of this batch was added

# The fields of a row besides key, value and headers.
cdef struct RowBasis:
    int64_t offset
    int64_t timestamp
    int8_t timestamp_type    # 0 create, 1 log append, -1 none


cdef class KeyFilter:
    cdef object keys         # keeps the bytes alive that the spans point to
    cdef Span prefix
    cdef Span* table
    cdef size_t mask

    cdef int add(self, key) except -1
    cdef void apply(self, Filter* filter) noexcept


cdef RowStatus rows_of_batch(
    const uint8_t* payload, size_t size, const BatchInfo* info, const Filter* filter, Rows* rows,
) noexcept nogil
cdef RowStatus row_put(
    const RowBasis* basis, const Span* key, const Span* value, const Filter* filter, Rows* rows,
) noexcept nogil
cdef Span* key_find(Span* table, size_t mask, const Span* key) noexcept nogil
