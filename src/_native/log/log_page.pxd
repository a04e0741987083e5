from libc.stdint cimport int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.segmented_log cimport SegmentedLog
from broker._native.records.record_batch cimport BatchInfo, BatchStatus

cdef enum PageStatus:
    PAGE_READ
    PAGE_NOTHING              # no batch up to the end
    PAGE_TOO_LARGE            # the batch is larger than `size_max`, or memory is exhausted
    PAGE_OUT_OF_RANGE         # an offset below the log start or above the log end
    PAGE_FAILED               # the read failed, or the log is not in service

# The whole batches of one read. The caller owns it, zeroed at first; its memory is reused by the
# next page.
cdef struct LogPage:
    uint8_t* data
    size_t capacity
    size_t size
    Cursor batches            # those that `page_take` has not returned yet
    int64_t next_offset       # after all of them
    int error                 # with PAGE_FAILED: -errno of the read, 0 when the log refused it


cdef PageStatus page_read(
    LogPage* page, SegmentedLog log, int64_t offset, int64_t end, int64_t size,
    int64_t size_max) noexcept
cdef BatchStatus page_take(LogPage* page, BatchInfo* info, Cursor* records) noexcept nogil
cdef void page_trim(LogPage* page, size_t kept_max) noexcept nogil
