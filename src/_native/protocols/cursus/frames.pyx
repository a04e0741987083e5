"""Cursus's frames, written from the batches of a log without a Python object per record.

    u32 length | BA7C and the rest of the header | seqStart seqEnd count | records

A read takes one slice of a log: whole batches. Control batches and aborted records are skipped. A
compressed batch is left to the caller, who passes its records decompressed:

    read_slice -> page -> walk: batch by batch -> walk_records -> out
                            |         ^
                       COMPRESSED    add, or hold and walk again

What cannot be read is never skipped here: the status reports it, `next_offset` is its offset and
`skip_offset` the offset after it.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.kernel.growing cimport text_reserve
from broker._native.log.log_page cimport (
    PAGE_FAILED,
    PAGE_NOTHING,
    PAGE_OUT_OF_RANGE,
    PAGE_READ,
    PAGE_TOO_LARGE,
    LogPage,
    PageStatus,
    page_read,
    page_trim,
)
from broker._native.log.transaction_index cimport aborted_list_free
from broker._native.protocols.cursus.batch cimport (
    COUNTS_SIZE,
    HEAD_SIZE_MAX,
    SHORT_MAX,
    CursusRecord,
    Text as Bytes,
    counts_put,
    head_put,
    record_put,
    record_size,
    signed_of,
    text_of,
    unsigned_of,
)
from broker._native.protocols.cursus.produce cimport LOG_HAS_STREAMS
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_HEADER_SIZE,
    BATCH_OK,
    batch_check_crc,
    batch_header,
    batch_last_offset,
    sum_wrapped,
)
from broker._native.records.record_walk cimport Span, header_take, record_take

from broker.model import limits

cdef enum:
    PREFIX_SIZE = 7           # of "cursus.", with which Cursus's own headers begin
    EVENTS_AHEAD = 8
    NEAR_BYTES = 16 * 1024    # between two events: as dear to read over as to look up the next one

cdef int64_t READ_BYTES = limits.CURSUS_READ_BYTES_PER_STEP
cdef int64_t EVENTS_READ_BYTES = 64 * 1024
cdef size_t RECORD_BYTES_MAX = limits.CURSUS_RECORD_BYTES_MAX

# The buffer of the current read, reused by each call.
cdef LogPage page
memset(&page, 0, sizeof(page))


cdef inline Bytes bytes_of(Span span, size_t size_max) noexcept nogil:
    """Return the bytes of a value; none of a null, or of one longer than its field can be."""
    cdef Bytes text
    text.data = span.start
    text.size = <size_t>span.length if span.length > 0 else 0
    if text.size > size_max:
        text.size = 0
    return text


cdef inline bint has_name(Span name, const char* suffix, int32_t size) noexcept nogil:
    return name.length == PREFIX_SIZE + size and (
        memcmp(name.start + PREFIX_SIZE, suffix, <size_t>size) == 0)


cdef bint read_headers(const RecordFields* fields, CursusRecord* record) noexcept nogil:
    """Read Cursus's own headers; the last value of a name counts. Return False if malformed."""
    cdef Cursor headers = fields.headers
    cdef Span name, value
    cdef int32_t _header
    for _header in range(fields.header_count):
        if not header_take(&headers, &name, &value):
            return False
        if value.length < 0 or name.length <= PREFIX_SIZE or (
                memcmp(name.start, b"cursus.", PREFIX_SIZE) != 0):
            continue
        if has_name(name, b"producer_id", 11):
            record.producer_id = bytes_of(value, SHORT_MAX)
        elif has_name(name, b"seq_num", 7):
            record.sequence = unsigned_of(bytes_of(value, SHORT_MAX), <uint64_t>-1)
        elif has_name(name, b"epoch", 5):
            record.epoch = signed_of(bytes_of(value, SHORT_MAX))
        elif has_name(name, b"event_type", 10):
            record.event_type = bytes_of(value, SHORT_MAX)
        elif has_name(name, b"schema_version", 14):
            record.schema_version = <uint32_t>unsigned_of(
                bytes_of(value, SHORT_MAX), <uint32_t>-1)
        elif has_name(name, b"aggregate_version", 17):
            record.aggregate_version = unsigned_of(bytes_of(value, SHORT_MAX), <uint64_t>-1)
        elif has_name(name, b"metadata", 8):
            record.metadata = bytes_of(value, SHORT_MAX)
        elif has_name(name, b"snapshot_version", 16):
            record.is_snapshot = True
    return headers.left == 0


STATUS_NAMES = {
    FRAME_OPEN: "open",
    FRAME_END: "end",
    FRAME_FULL: "full",
    FRAME_COMPRESSED: "compressed",
    FRAME_TOO_LARGE: "too large",
    FRAME_UNREADABLE: "unreadable",
    FRAME_OUT_OF_RANGE: "out of range",
    FRAME_OFFLINE: "offline",
}


cdef name_of(FrameStatus status):
    if status == FRAME_NO_MEMORY:
        raise MemoryError
    return STATUS_NAMES[status]


@cython.final
cdef class CursusFrame:
    """A frame under construction, with records of one log or of several.

    Attributes:
        count: how many records it has.
        last_offset: of its last record; -1: it has none.
        next_offset: the first offset that was not taken yet.
        skip_offset: the offset after what cannot be taken, if "too large" or "unreadable".
        large_size: bytes that the record would take in a frame, for "too large".
    """

    def __cinit__(
            self, bytes topic not None, uint32_t partition, *, bint is_original, size_t bytes_max,
            int32_t records_max):
        """Set the fields of the header and the limits of a frame; its first record may exceed them.

        Raises ValueError for a topic that is too long for a frame, MemoryError.
        """
        cdef Bytes name = text_of(topic, SHORT_MAX)
        memset(&self.out, 0, sizeof(self.out))
        memset(&self.aborted, 0, sizeof(self.aborted))
        if <size_t>PyBytes_GET_SIZE(topic) > SHORT_MAX:
            raise ValueError(f"a topic of {len(topic)} bytes, at most {SHORT_MAX} are possible")
        if not text_reserve(&self.out, LENGTH_SIZE + HEAD_SIZE_MAX + name.size):
            raise MemoryError
        self.counts_at = <size_t>(
            head_put(self.out.data + LENGTH_SIZE, name, partition, is_original) - self.out.data)
        self.head_size = self.counts_at + COUNTS_SIZE
        self.bytes_max = bytes_max
        self.records_max = records_max
        self.begin()

    def __dealloc__(self):
        free(self.out.data)
        aborted_list_free(&self.aborted)

    cdef void begin(self) noexcept:
        """Begin a frame without records; the header stays."""
        self.out.size = self.head_size
        self.count = 0
        self.last_offset = -1
        self.seq_start = self.seq_end = 0

    cdef FrameStatus read_slice(
            self, PartitionLog log, int64_t offset, int64_t end, bint is_committed) noexcept:
        """Add the records of one read from an offset up to an end, at which a batch begins.

        The memory of the read is reused by the next call, for any frame.
        """
        cdef PageStatus status
        self.decompressed = None
        self.left = 0
        self.next_offset = offset
        self.is_committed = is_committed
        self.has_streams = log.protocol_flags & LOG_HAS_STREAMS
        self.has_aborted = False
        self.read_size = 0
        if offset >= end:
            return FRAME_END
        page_trim(&page, 2 * <size_t>READ_BYTES)
        status = page_read(&page, log, offset, end, READ_BYTES, INT64_MAX)
        if status == PAGE_NOTHING:
            self.next_offset = end
            return FRAME_END
        if status == PAGE_OUT_OF_RANGE:
            return FRAME_OUT_OF_RANGE
        if status == PAGE_FAILED:
            if page.error < 0:
                log.fail(page.error)
            return FRAME_OFFLINE
        if status == PAGE_TOO_LARGE or not text_reserve(
                &self.out, min(page.size, self.bytes_max)):
            return FRAME_NO_MEMORY
        self.batches = page.batches
        self.read_size = page.size
        self.slice_end = page.next_offset
        return self.walk(log)

    cdef FrameStatus walk(self, PartitionLog log) noexcept:
        """Continue with what was read, after a full frame was taken."""
        cdef const uint8_t* batch
        cdef FrameStatus status
        cdef int64_t after
        cdef int aborted
        while True:
            if self.left > 0:
                status = self.walk_records()
                if status != FRAME_OPEN:
                    return status
            if self.batches.left == 0:
                return FRAME_OPEN
            batch = self.batches.next
            if batch_header(&self.batches, &self.info) != BATCH_OK:
                return self.step_over(self.slice_end)
            after = sum_wrapped(batch_last_offset(&self.info), 1)
            if batch_check_crc(batch, &self.info) != BATCH_OK:
                return self.step_over(min(after, self.slice_end))
            if after <= self.next_offset:
                continue
            aborted = self.is_aborted(log)
            if aborted < 0:
                return FRAME_OFFLINE
            if self.info.attributes & ATTRIBUTE_CONTROL or aborted:
                self.next_offset = after
                continue
            if self.info.attributes & ATTRIBUTE_CODEC:
                self.next_offset = max(self.next_offset, self.info.base_offset)
                return FRAME_COMPRESSED
            self.records.next = batch + BATCH_HEADER_SIZE
            self.records.left = self.info.size - BATCH_HEADER_SIZE
            self.left = self.info.record_count
            if self.left == 0:
                self.next_offset = after

    cdef FrameStatus step_over(self, int64_t next_offset) noexcept:
        # At least one offset is skipped.
        self.left = 0
        self.skip_offset = max(next_offset, sum_wrapped(self.next_offset, 1))
        return FRAME_UNREADABLE

    cdef int is_aborted(self, PartitionLog log) noexcept:
        # Returns 1 or 0; -1: the log cannot be read.
        cdef size_t i
        if not self.is_committed or not self.info.attributes & ATTRIBUTE_TRANSACTIONAL:
            return False
        if not self.has_aborted:
            self.aborted.count = 0
            if log.find_aborted(self.next_offset, self.slice_end, &self.aborted) < 0:
                return -1
            self.has_aborted = True
        for i in range(self.aborted.count):
            if self.aborted.entries[i].producer_id == self.info.producer_id and (
                    self.aborted.entries[i].first_offset <= self.info.base_offset
                    < self.aborted.entries[i].last_offset):
                return True
        return False

    cdef FrameStatus walk_records(self) noexcept:
        cdef Cursor before
        cdef RecordFields fields
        cdef FrameStatus status
        cdef int64_t offset, after = sum_wrapped(batch_last_offset(&self.info), 1)
        while self.left > 0:
            before = self.records
            if not record_take(&self.records, &fields) or not (
                    0 <= fields.offset_delta <= self.info.last_offset_delta):
                return self.step_over(after)
            offset = sum_wrapped(self.info.base_offset, fields.offset_delta)
            if offset >= self.next_offset:
                status = self.put(&fields, offset)
                if status == FRAME_UNREADABLE:
                    return self.step_over(after)
                if status != FRAME_OPEN:
                    self.records = before
                    return status
            self.left -= 1
        self.next_offset = max(self.next_offset, after)
        return FRAME_OPEN

    cdef FrameStatus put(self, const RecordFields* fields, int64_t offset) noexcept:
        cdef CursusRecord record
        cdef size_t size
        memset(&record, 0, sizeof(record))
        record.offset = <uint64_t>offset
        record.key = bytes_of(fields.key, SHORT_MAX)
        record.payload = bytes_of(fields.value, <uint32_t>-1)
        if fields.header_count > 0 and not read_headers(fields, &record):
            return FRAME_UNREADABLE
        if record.is_snapshot and self.has_streams:
            self.next_offset = sum_wrapped(offset, 1)
            return FRAME_OPEN
        size = record_size(&record)
        if self.count > 0 and (
                self.count >= self.records_max
                or self.out.size - LENGTH_SIZE + size > self.bytes_max):
            return FRAME_FULL
        if size > RECORD_BYTES_MAX:
            self.large_size = size
            self.next_offset = offset
            self.skip_offset = sum_wrapped(offset, 1)
            return FRAME_TOO_LARGE
        if not text_reserve(&self.out, size):
            return FRAME_NO_MEMORY
        record_put(self.out.data + self.out.size, &record)
        self.out.size += size
        if self.count == 0:
            self.seq_start = record.sequence
        self.seq_end = record.sequence
        self.version = record.aggregate_version
        self.count += 1
        self.last_offset = offset
        self.next_offset = sum_wrapped(offset, 1)
        return FRAME_OPEN

    cdef FrameStatus put_event(
            self, PartitionLog log, int64_t offset, uint64_t version, int64_t end,
            bint is_near) noexcept:
        """Add one event; `is_near`: so are the next ones, which are read with it."""
        cdef PageStatus status
        if not self.page_start <= offset < self.slice_end:
            page_trim(&page, 2 * <size_t>READ_BYTES)
            status = page_read(
                &page, log, offset, end, EVENTS_READ_BYTES if is_near else 1, INT64_MAX)
            self.page_start = offset
            self.slice_end = page.next_offset
            self.batches = page.batches
            if status == PAGE_FAILED:
                if page.error < 0:
                    log.fail(page.error)
                return FRAME_OFFLINE
            if status == PAGE_TOO_LARGE:
                return FRAME_NO_MEMORY
            if status != PAGE_READ:
                return FRAME_OUT_OF_RANGE
        return self.take_event(offset, version)

    cdef FrameStatus take_event(self, int64_t offset, uint64_t version) noexcept:
        cdef RecordFields fields
        cdef Cursor before
        cdef FrameStatus status
        cdef int32_t _record
        while True:
            before = self.batches
            if batch_header(&self.batches, &self.info) != BATCH_OK:
                return FRAME_UNREADABLE
            if batch_last_offset(&self.info) >= offset:
                break
        if self.info.attributes & (ATTRIBUTE_CODEC | ATTRIBUTE_CONTROL) or (
                batch_check_crc(before.next, &self.info) != BATCH_OK):
            return FRAME_UNREADABLE
        self.records.next = before.next + BATCH_HEADER_SIZE
        self.records.left = self.info.size - BATCH_HEADER_SIZE
        self.batches = before     # which may hold the next event, too
        for _record in range(self.info.record_count):
            if not record_take(&self.records, &fields):
                return FRAME_UNREADABLE
            if sum_wrapped(self.info.base_offset, fields.offset_delta) == offset:
                status = self.put(&fields, offset)
                if status == FRAME_OPEN and self.version != version:
                    return FRAME_UNREADABLE
                return status
        return FRAME_UNREADABLE

    cdef bint hold(self, bytes batch, bytes decompressed, int64_t offset) noexcept:
        """Have `walk` continue with the decompressed records of a batch, from an offset on.

        The memory is used until the next read, or until `decompressed` is dropped. Return False if
        the header of the batch is invalid.
        """
        cdef Cursor cursor
        self.batches.left = 0
        self.left = 0
        self.decompressed = decompressed
        self.next_offset = offset
        self.slice_end = sum_wrapped(offset, 1)
        cursor.next = <const uint8_t*>PyBytes_AS_STRING(batch)
        cursor.left = <size_t>PyBytes_GET_SIZE(batch)
        if batch_header(&cursor, &self.info) != BATCH_OK:
            return False
        self.records.next = <const uint8_t*>PyBytes_AS_STRING(decompressed)
        self.records.left = <size_t>PyBytes_GET_SIZE(decompressed)
        self.left = self.info.record_count
        if self.left == 0:
            self.next_offset = max(offset, sum_wrapped(batch_last_offset(&self.info), 1))
        return True

    cdef void finish(self) noexcept:
        """Write the length and the counts: the frame is complete."""
        store_uint32(self.out.data, <uint32_t>(self.out.size - LENGTH_SIZE))
        counts_put(self.out.data + self.counts_at, self.seq_start, self.seq_end, self.count)

    cdef void trim(self) noexcept:
        """Free all memory but that of the header; there are no records."""
        # A new block, not realloc: a few bytes left in place would keep the heap from reusing the
        # rest.
        cdef void* smaller = malloc(self.head_size)
        if smaller != NULL:
            memcpy(smaller, self.out.data, self.head_size)
            free(self.out.data)
            self.out.data = <uint8_t*>smaller
            self.out.capacity = self.head_size

    # ---- from Python --------------------------------------------------------------------------

    def read(self, PartitionLog log not None, int64_t offset, int64_t end, *, bint is_committed):
        """Add the records of one read from an offset up to an end; return the status.

        A batch must begin at the end: the high watermark, or the last stable offset. After "open"
        there may be more at `next_offset`; after "compressed" call `add` with the batch there. The
        other statuses are "end", "full", "too large", "unreadable", "out of range" and "offline".
        """
        return name_of(self.read_slice(log, offset, end, is_committed))

    def read_events(
            self, PartitionLog log not None, list offsets not None, int64_t version, int64_t end,
            Py_ssize_t start, Py_ssize_t stop):
        """Add the events at offsets[start:stop], ascending; the first of them has this version.

        Return the status and the index of the first that was not added: "open" for all of them, or
        for as many as one read has bytes, else "full", "too large", "unreadable" (it is damaged, or
        another one), "out of range" or "offline". A batch must begin at the end.
        """
        cdef Py_ssize_t i, ahead
        cdef size_t size_max = self.out.size + <size_t>READ_BYTES
        cdef int64_t distance
        cdef FrameStatus status = FRAME_OPEN
        self.left = 0
        self.decompressed = None
        self.has_streams = False  # a snapshot is no event: its version is 0
        self.page_start = self.slice_end = -1
        self.event_size = BATCH_HEADER_SIZE
        for i in range(start, stop):
            ahead = min(i + EVENTS_AHEAD, len(offsets) - 1)
            distance = offsets[ahead] - offsets[i]
            status = self.put_event(
                log, offsets[i], <uint64_t>(version + i - start), end,
                0 < distance * self.event_size <= NEAR_BYTES * (ahead - i))
            self.event_size = self.info.size
            if status == FRAME_OPEN and self.out.size >= size_max:
                return name_of(status), i + 1
            if status != FRAME_OPEN:
                return name_of(status), i
        return name_of(status), stop

    def add(self, bytes batch not None, bytes decompressed not None, int64_t offset):
        """Add the decompressed records of a batch from an offset on; return the status."""
        cdef FrameStatus status
        if self.hold(batch, decompressed, offset):
            status = self.walk(None)
        else:
            status = self.step_over(self.slice_end)
        self.decompressed = None
        self.left = 0
        return name_of(status)

    def take(self):
        """Return the frame (bytes) without its length, and begin the next one."""
        cdef bytes frame
        self.finish()
        frame = PyBytes_FromStringAndSize(
            <const char*>self.out.data + LENGTH_SIZE, <Py_ssize_t>(self.out.size - LENGTH_SIZE))
        self.begin()
        self.trim()
        return frame
