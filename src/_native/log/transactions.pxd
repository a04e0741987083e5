from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker._native.records.record_batch cimport BatchInfo

# The content of a control batch that ends its producer's transaction.
cdef struct Marker:
    bint is_abort
    int32_t coordinator_epoch


# A producer whose transactional batches of one epoch may be appended.
cdef struct Admission:
    int64_t producer_id
    int16_t epoch


cdef class Transactions:
    cdef dict open                       # producer id → first offset
    # Of (first offset, marker's offset), whose marker is not yet below the high watermark.
    cdef list ended
    cdef list restored                   # the same, of a log that was opened just now
    cdef int64_t restored_from           # without those whose markers are below
    # Few: open transactions are bounded for the whole broker (limits.OPEN_TRANSACTIONS_MAX).
    cdef Admission* admissions
    cdef int32_t admission_count
    cdef int32_t admission_capacity
    cdef readonly int64_t first_undecided    # INT64_MAX: none

    cdef int admit(self, int64_t producer_id, int16_t epoch) except -1
    cdef void dismiss(self, int64_t producer_id) noexcept
    cdef void dismiss_all(self) noexcept
    cdef bint admits(self, int64_t producer_id, int16_t epoch) noexcept
    cdef Admission* admission_of(self, int64_t producer_id) noexcept

    cdef void begin(self, int64_t producer_id, int64_t first_offset)
    cdef void end(self, int64_t producer_id, int64_t marker_offset)
    cdef int64_t first_of(self, int64_t producer_id)
    cdef int64_t first_open_after(self, int64_t marker_offset, int64_t producer_id)
    cdef void reached(self, int64_t high_watermark)
    cdef void opened(self)
    cdef void lowered(self, int64_t high_watermark)
    cdef void find_first(self)


cdef bint read_marker(const uint8_t* batch, BatchInfo* info, Marker* marker) noexcept nogil
