from libc.stdint cimport int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.segmented_log cimport SegmentedLog
from broker._native.records.record_batch cimport BatchInfo, BatchStatus

cdef enum PageStatus:
    PAGE_READ
    PAGE_NOTHING              # there is none up to the end
    PAGE_TOO_LARGE            # for the caller, or for the memory that there is
    PAGE_OUT_OF_RANGE         # an offset below the log start or above the log end
    PAGE_FAILED               # the disk, or the log is not in service

# Whole batches, as one read brings them. The caller owns it, zeroed at first; its memory serves one
# page after the other.
cdef struct LogPage:
    uint8_t* data
    size_t capacity
    size_t size
    Cursor batches            # those that were not taken yet
    int64_t next_offset       # behind all of them
    int error                 # of PAGE_FAILED: -errno of the disk, 0 when the log said so itself


cdef PageStatus page_read(
    LogPage* page, SegmentedLog log, int64_t offset, int64_t end, int64_t size,
    int64_t size_max) noexcept
cdef BatchStatus page_take(LogPage* page, BatchInfo* info, Cursor* records) noexcept nogil
cdef void page_trim(LogPage* page, size_t kept_max) noexcept nogil
