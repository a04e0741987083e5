from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from broker._native.records.record_batch cimport BatchInfo
from broker._native.records.record_walk cimport Span

# Which records are kept; the defaults keep all.
cdef struct Filter:
    bint is_set
    int64_t min_offset
    int64_t max_offset       # included, as all of these are
    int64_t min_timestamp
    int64_t max_timestamp
    bint has_keys            # then the key must begin with the prefix, or be one of the table
    Span prefix
    Span* key_table          # open addressing; start NULL is free
    size_t key_mask

# Where the next row goes: arrays with room for it, NULL for a column that nobody asked for.
cdef struct Rows:
    const uint8_t* origin    # what spans count from
    Py_ssize_t count
    int64_t* offset
    int64_t* timestamp
    int8_t* timestamp_type
    int32_t* key_start
    int32_t* key_length
    int32_t* value_start
    int32_t* value_length
    int32_t* header_end      # NULL: headers are stepped over, unread
    int32_t* header_key_start
    int32_t* header_key_length
    int32_t* header_value_start
    int32_t* header_value_length
    Py_ssize_t header_count
    Py_ssize_t header_capacity
    Py_ssize_t bad_record    # in the batch: which one a refusal is about

cdef enum RowStatus:
    ROWS_OK = 0
    ROWS_BAD_RECORD          # a record's lengths do not fit
    ROWS_LEFT_OVER           # bytes follow the last record
    ROWS_HEADERS_FULL        # no room for the headers: nothing of this batch was kept

# What every record of a batch shares.
cdef struct RowBasis:
    int64_t offset
    int64_t timestamp
    int8_t timestamp_type    # 0 create, 1 log append, -1 none


cdef RowStatus rows_of_batch(
    const uint8_t* payload, size_t size, const BatchInfo* info, const Filter* filter, Rows* rows,
) noexcept nogil
cdef RowStatus row_put(
    const RowBasis* basis, const Span* key, const Span* value, const Filter* filter, Rows* rows,
) noexcept nogil
cdef Span* key_find(Span* table, size_t mask, const Span* key) noexcept nogil
