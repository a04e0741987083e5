"""Reads batch headers, and counts and validates batches, without decoding records.

A row of `scan_headers` is a BatchHeader below, in native byte order and alignment; ROW_FORMAT is
its format for Python's struct module.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport (
    INT64_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t,
)
from libc.string cimport memset

from cython cimport final

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.column cimport COLUMN_BYTE, Column, column_new
from broker._native.records.legacy_message cimport (
    Message, entry_take, message_check_crc, message_take,
)
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_COUNT,
    BATCH_CRC,
    BATCH_EMPTY,
    BATCH_OK,
    BATCH_TRUNCATED,
    BatchInfo,
    BatchStatus,
    batch_check_crc,
    batch_last_offset,
    batch_status_text,
    batch_records_fit,
    sum_wrapped,
)

from broker.model.errors import Corrupt

cdef struct BatchHeader:
    int64_t position
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer_id
    int32_t size
    int32_t leader_epoch
    int32_t base_sequence
    int32_t record_count
    uint32_t crc
    int16_t attributes
    int16_t producer_epoch
    int8_t magic

ROW_FORMAT = "=6q4iIhhb7x"


@final
cdef class _Scan:
    # Iterates over the entries (batches and messages) of a buffer.
    cdef Py_buffer view
    cdef bint has_view
    cdef Cursor cursor
    cdef BatchInfo info
    cdef const uint8_t* entry

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.has_view = True
        self.cursor.next = <const uint8_t*>self.view.buf
        self.cursor.left = <size_t>self.view.len

    def __dealloc__(self):
        if self.has_view:
            PyBuffer_Release(&self.view)

    cdef Py_ssize_t position(self):
        return self.entry - <const uint8_t*>self.view.buf

    cdef bint advance(self) except -1:
        """Read the header of the next whole entry; False when there is none."""
        cdef BatchStatus status
        self.entry = self.cursor.next
        status = entry_take(&self.cursor, &self.info)
        if status == BATCH_OK:
            return True
        if status == BATCH_EMPTY or status == BATCH_TRUNCATED:
            return False
        raise self.corrupt(status)

    cdef object corrupt(self, BatchStatus status):
        return Corrupt(f"batch: {batch_status_text(status)}", self.position())

    cdef bint has_cut(self) noexcept:
        """Return whether only the head of the next entry exists, which is then in `info`."""
        return self.cursor.left > 0 and self.info.size > 0 and 0 <= self.info.magic <= 2


def scan_headers(data, bint cut=False):
    """Return (rows, end): a BatchHeader for each batch or message, and where the last one ends.

    With `cut`, a last one that is incomplete has a row too, if its head is complete.

    Raises:
        Corrupt: bytes that begin neither a batch nor a message.
    """
    cdef _Scan scan = _Scan(data)
    cdef Column rows = column_new(COLUMN_BYTE, 64 * sizeof(BatchHeader))
    while scan.advance():
        put_header(rows, &scan.info, scan.position())
    if cut and scan.has_cut():
        put_header(rows, &scan.info, scan.position())
    return rows, scan.position()


cdef int put_header(Column rows, BatchInfo* info, Py_ssize_t position) except -1:
    cdef BatchHeader* row
    rows.grow(rows.count + <Py_ssize_t>sizeof(BatchHeader))
    row = <BatchHeader*>(<uint8_t*>rows.data + rows.count)
    rows.count += sizeof(BatchHeader)
    memset(row, 0, sizeof(BatchHeader))
    row.position = position
    row.base_offset = info.base_offset
    row.last_offset = batch_last_offset(info)
    row.base_timestamp = info.base_timestamp
    row.max_timestamp = info.max_timestamp
    row.producer_id = info.producer_id
    row.size = <int32_t>info.size
    row.leader_epoch = info.leader_epoch
    row.base_sequence = info.base_sequence
    row.record_count = info.record_count
    row.crc = info.crc
    row.attributes = info.attributes
    row.producer_epoch = info.producer_epoch
    row.magic = info.magic
    return 0


@final
cdef class Audit:
    """Counts over all bytes so far, which must be given in order.

    Of a batch whose CRC or records are wrong, only the length in the header is used.
    """

    cdef readonly int64_t batches             # batches and messages, valid or not
    cdef readonly int64_t records             # by their headers; those of a wrapper are unknown
    cdef readonly int64_t size                # bytes
    cdef readonly int64_t compressed_batches
    cdef readonly int64_t compressed_size     # bytes of those
    cdef readonly int64_t control_batches
    cdef readonly int64_t transactional_batches
    cdef readonly int64_t crc_errors          # batches with a wrong CRC
    cdef readonly int64_t damaged_batches     # batches whose counts do not match their records
    cdef readonly int64_t gaps                # gaps between offsets (compaction)
    cdef readonly int64_t missing_offsets     # offsets in those gaps, at most INT64_MAX
    cdef readonly int64_t disorders           # batches that begin before the previous one ends
    cdef readonly int64_t max_timestamp       # ms, -1 before any
    cdef readonly int64_t min_timestamp       # smallest base timestamp, ms, -1 before any
    cdef readonly int64_t first_offset        # -1 before any
    cdef readonly int64_t next_offset         # after the last record, -1 before any
    cdef bint has_begun                       # whether any valid batch was counted

    def __cinit__(self):
        self.first_offset = self.next_offset = self.max_timestamp = self.min_timestamp = -1

    def __repr__(self):
        return (f"<Audit {self.records} records in {self.batches} batches, {self.size} bytes, "
                f"offsets {self.first_offset} to {self.next_offset}, {self.crc_errors} CRC errors, "
                f"{self.damaged_batches} damaged, {self.gaps} gaps, {self.disorders} disorders>")

    @property
    def is_valid(self):
        """Whether all CRCs and counts are right and offsets ascend."""
        return not (self.crc_errors or self.damaged_batches or self.disorders)

    cdef int add(self, _Scan scan) except -1:
        cdef BatchInfo* info = &scan.info
        cdef BatchStatus status
        self.batches += 1
        self.size += <int64_t>info.size
        with nogil:
            status = check_entry(scan.entry, info)
        if status == BATCH_CRC:
            self.crc_errors += 1
        elif status != BATCH_OK:
            self.damaged_batches += 1
        else:
            self.count(info)
        return 0

    cdef void count(self, BatchInfo* info) noexcept:
        """Add the header of a valid batch to the counts."""
        if info.attributes & ATTRIBUTE_CODEC:
            self.compressed_batches += 1
            self.compressed_size += <int64_t>info.size
        if info.magic == 2:
            self.control_batches += info.attributes & ATTRIBUTE_CONTROL != 0
            self.transactional_batches += info.attributes & ATTRIBUTE_TRANSACTIONAL != 0
        self.records += max(info.record_count, 0)
        if not self.has_begun or info.base_timestamp < self.min_timestamp:
            self.min_timestamp = info.base_timestamp
        self.max_timestamp = max(self.max_timestamp, info.max_timestamp)
        self.follow(info)
        self.has_begun = True

    cdef void follow(self, BatchInfo* info) noexcept:
        """Compare the offsets with those before; the first offset of a wrapper is unknown."""
        cdef uint64_t missing
        if not self.has_begun:
            self.first_offset = info.base_offset
        elif info.base_offset < self.next_offset:
            self.disorders += 1
        elif info.base_offset > self.next_offset and info.record_count >= 0:
            self.gaps += 1
            missing = <uint64_t>info.base_offset - <uint64_t>self.next_offset
            self.missing_offsets += <int64_t>min(
                missing, <uint64_t>INT64_MAX - <uint64_t>self.missing_offsets)
        self.next_offset = sum_wrapped(batch_last_offset(info), 1)


cdef BatchStatus check_entry(const uint8_t* entry, BatchInfo* info) noexcept nogil:
    """Return BATCH_CRC for a wrong CRC, BATCH_COUNT when uncompressed lengths do not match."""
    cdef Message message
    cdef Cursor cursor
    cdef BatchStatus status, fields
    if info.magic == 2:
        status = batch_check_crc(entry, info)
        if status == BATCH_OK and (info.record_count < 0 or (
                info.attributes & ATTRIBUTE_CODEC == 0 and not batch_records_fit(entry, info))):
            return BATCH_COUNT
        return status
    cursor.next = entry
    cursor.left = info.size
    fields = message_take(&cursor, &message)
    if fields != BATCH_OK and fields != BATCH_COUNT:
        return fields
    status = message_check_crc(&message)
    return fields if status == BATCH_OK else status


def audit(data, Audit state=None):
    """Return (counts, end): the state with these bytes added, and the end of the last batch.

    Raises:
        Corrupt: bytes that begin neither a batch nor a message; the counts have what precedes them.
    """
    cdef _Scan scan = _Scan(data)
    cdef Audit counts = Audit() if state is None else state
    while scan.advance():
        counts.add(scan)
    return counts, scan.position()
