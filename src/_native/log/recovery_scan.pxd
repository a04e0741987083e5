from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.segment cimport Segment
from broker._native.records.record_batch cimport BatchInfo


cdef struct Scan:
    int64_t next_offset        # where the next batch must begin
    int64_t gaps_end           # up to here it may begin later
    bint is_copy               # within a segment it may do so anywhere: a leader's batches
    int64_t synced_end         # everything below was synced once: what is invalid there is damaged
    int64_t batches_end        # no batch of the segment has an offset from here on
    int64_t segment_end        # the base offset of the next segment, INT64_MAX: there is none
    int64_t last_offset        # the base offset of the last batch, -1: there is none
    int32_t epoch              # leader epoch of the last batch
    int32_t epoch_before       # leader epoch of the one before it
    int64_t position           # end of the last valid batch


# The part of a file that was read last.
cdef class _Chunk:
    cdef uint8_t* bytes
    cdef size_t capacity
    cdef int64_t start
    cdef size_t size

    cdef int hold(self, int fd, int64_t position, size_t size) noexcept


cdef void scan_begin(
    Scan* scan, int64_t next_offset, int64_t gaps_end, int64_t synced_end,
    bint is_copy) noexcept nogil
cdef int scan_segment(PartitionLog log, Segment segment, Scan* scan, int64_t end_offset,
                      int64_t producers_from, _Chunk chunk) except -1
cdef bint next_batch(_Chunk chunk, Segment segment, Scan* scan, BatchInfo* info,
                     int* status) noexcept
cdef bint may_skip_to(const Scan* scan, int64_t base_offset) noexcept nogil
