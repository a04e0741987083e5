"""Reads batches of a log into memory, for protocols that encode records in their own format.

    page_read -> page_take, once per batch -> page_read from next_offset on -> page_trim

Readers that get batches as they are stored do not use this.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.errno cimport EIO
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free

from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.file_ops cimport file_pread
from broker._native.kernel.growing cimport make_capacity
from broker._native.log.open_files cimport OpenFile
from broker._native.log.segmented_log cimport LogSlice, SegmentedLog
from broker._native.log.turn cimport LOG_OK, LOG_OUT_OF_RANGE, LogStatus
from broker._native.records.record_batch cimport (
    BATCH_HEADER_SIZE,
    BATCH_OK,
    BatchInfo,
    BatchStatus,
    batch_check_crc,
    batch_header,
)


cdef PageStatus page_read(
        LogPage* page, SegmentedLog log, int64_t offset, int64_t end, int64_t size,
        int64_t size_max) noexcept:
    """Read `size` bytes of whole batches from an offset up to an end, at least the first batch.

    The first batch may have up to `size_max` bytes. A failed read does not take the log offline:
    the caller, which serves the request, does.
    """
    cdef LogSlice found
    cdef PyObject* owner
    cdef ssize_t count
    cdef LogStatus status
    page.size = page.batches.left = 0
    page.next_offset = offset
    page.error = 0
    status = log.slice(offset, end, size, True, &found, &owner)
    if status != LOG_OK:
        return PAGE_OUT_OF_RANGE if status == LOG_OUT_OF_RANGE else PAGE_FAILED
    if found.size == 0:
        return PAGE_NOTHING
    if found.size > size_max or not make_capacity(
            <void**>&page.data, &page.capacity, <size_t>found.size):
        Py_DECREF(<object>owner)
        return PAGE_TOO_LARGE
    count = file_pread((<OpenFile>owner).fd, page.data, <size_t>found.size, found.position)
    Py_DECREF(<object>owner)
    if count != found.size:
        page.error = <int>count if count < 0 else -EIO
        return PAGE_FAILED
    page.size = page.batches.left = <size_t>count
    page.batches.next = page.data
    page.next_offset = found.next_offset
    return PAGE_READ


cdef BatchStatus page_take(LogPage* page, BatchInfo* info, Cursor* records) noexcept nogil:
    """Return the header and the records of the next batch, its CRC checked. There must be one."""
    cdef const uint8_t* batch = page.batches.next
    cdef BatchStatus status = batch_header(&page.batches, info)
    if status == BATCH_OK:
        status = batch_check_crc(batch, info)
        records.next = batch + BATCH_HEADER_SIZE
        records.left = info.size - BATCH_HEADER_SIZE
    return status


cdef void page_trim(LogPage* page, size_t kept_max) noexcept nogil:
    """Free the memory of a page if it is larger than `kept_max`."""
    if page.capacity > kept_max:
        free(page.data)
        page.data = NULL
        page.capacity = 0
