from cpython.object cimport PyObject
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from broker._native.log.segmented_log cimport LogSlice
from broker._native.log.transaction_index cimport AbortedList
from broker._native.wire.output_queue cimport OutputQueue

cdef enum:
    COPIED_MAX = 16 << 10      # shorter runs are copied after the head: one send, no sendfile
    PART_HEAD_SIZE_MAX = 4 + 2 + 8 + 8 + 8 + 5 + 4 + 5 + 1
    ABORTED_SIZE = 8 + 8 + 1
    DIVERGING_SIZE = 3 + 4 + 8 + 1

# One partition of a response; with an error the offsets are -1.
cdef struct PartitionHead:
    int16_t version
    int32_t partition
    int16_t error
    int64_t high_watermark
    int64_t last_stable_offset
    int64_t log_start_offset
    int32_t preferred_replica  # from which its reader should read instead; -1: from this one
    AbortedList* aborted       # NULL: the isolation level is read_uncommitted
    int64_t records            # bytes of records


cdef void put_padded(uint8_t* at, uint32_t value) noexcept
cdef uint8_t* put_head(uint8_t* at, PartitionHead* head, bint is_flexible) noexcept
cdef void put_records(OutputQueue* queue, PyObject* file, LogSlice* found) noexcept
cdef uint8_t* put_diverging(uint8_t* at, int32_t epoch, int64_t end_offset) noexcept
cdef void queue_tags(OutputQueue* queue) noexcept
