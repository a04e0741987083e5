from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.record_batch cimport BatchInfo

cdef enum AnswerStatus:
    ANSWER_OPEN               # there may be more records
    ANSWER_FULL               # has the requested bytes, or those that a frame may have
    ANSWER_GAP                # offsets are missing, which the binary form cannot express
    ANSWER_TOO_LARGE          # the first record alone does not fit into a frame
    ANSWER_CORRUPT            # records that do not match their lengths
    ANSWER_NO_MEMORY

# An answer to Fetch under construction, in either form. Zeroed at first; its memory is reused for
# the next answer.
cdef struct FetchAnswer:
    bint is_json
    AnswerStatus status
    int64_t next_offset       # after the records so far; with ANSWER_GAP and none: the first
    uint64_t bytes_max        # as the client counts them
    uint64_t bytes_counted
    uint64_t payload_bytes
    uint64_t large_size       # with ANSWER_TOO_LARGE: bytes of the value
    uint32_t count
    uint8_t* data
    size_t size
    size_t capacity


cdef void answer_begin(
    FetchAnswer* answer, bint is_json, int64_t offset, uint64_t bytes_max) noexcept nogil
cdef void answer_add(FetchAnswer* answer, const BatchInfo* info, Cursor records) noexcept nogil
cdef void answer_finish(FetchAnswer* answer, uint64_t next_offset) noexcept nogil
