from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.record_batch cimport BatchInfo

cdef enum AnswerStatus:
    ANSWER_OPEN               # there may be more records
    ANSWER_FULL               # of as many bytes as were asked for, or as a frame may have
    ANSWER_GAP                # offsets are missing, and this dialect could not say so
    ANSWER_TOO_LARGE          # the first record alone does not fit into a frame
    ANSWER_CORRUPT            # records that are not what their lengths say
    ANSWER_NO_MEMORY

# The answer to a Fetch in the making, of either dialect. Zeroed at first; its memory serves one
# answer after the other.
cdef struct FetchAnswer:
    bint is_json
    AnswerStatus status
    int64_t next_offset       # behind the records so far; with ANSWER_GAP and none: the first
    uint64_t bytes_max        # as the client counts them
    uint64_t bytes_counted
    uint64_t payload_bytes
    uint64_t large_size       # with ANSWER_TOO_LARGE: of the value
    uint32_t count
    uint8_t* data
    size_t size
    size_t capacity


cdef void answer_begin(
    FetchAnswer* answer, bint is_json, int64_t offset, uint64_t bytes_max) noexcept nogil
cdef void answer_add(FetchAnswer* answer, const BatchInfo* info, Cursor records) noexcept nogil
cdef void answer_finish(FetchAnswer* answer, uint64_t next_offset) noexcept nogil
