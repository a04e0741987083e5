"""Iterates over the batches of a log for a rewrite: checks them, and follows transactions.

Every CRC is checked, offsets must ascend, and a header's record count is used only after the
records were read. Damaged bytes raise Corrupt; an incomplete batch ends the input.
"""

from cpython.memoryview cimport PyMemoryView_FromMemory
from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t

from cython cimport final

from broker._native.kernel.cursor cimport Cursor, load_int16
from broker._native.records.column cimport COLUMN_BYTE, column_new
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_EMPTY,
    BATCH_HEADER_SIZE,
    BATCH_OK,
    BATCH_TRUNCATED,
    BatchInfo,
    BatchStatus,
    batch_check_crc,
    batch_header,
    batch_last_offset,
    batch_status_text,
)
from broker._native.records.record_walk cimport RecordFields, record_take

from broker.model import limits
from broker.model.errors import CodecError, Corrupt, LimitExceeded

cdef int32_t record_size_min = limits.RECORD_BYTES_MIN

cdef enum:
    COMPRESSION_RATIO = 16       # initial estimate of a batch's decompressed size
    ABORT_MARKER = 0             # the type in a control record's key; 1 is a commit
    CONTROL_KEY_SIZE = 4         # int16 version, int16 type


@final
cdef class WalkedTransactions:
    """The transactions that are open at the current batch, as in Kafka's cleaner.

    `aborted` has (producer id, first offset, marker's offset) of each aborted transaction.
    """

    def __cinit__(self, aborted=()):
        self.aborted = sorted([
            (int(first), int(producer), int(marker)) for producer, first, marker in aborted])
        self.aborting = {}
        self.observed = set()
        self.committing = set()
        self.kept = []

    cdef int follow(self, const BatchInfo* info) except -1:
        while self.seen < len(self.aborted) and (
                self.aborted[self.seen][0] <= batch_last_offset(info)):
            first, producer, marker = self.aborted[self.seen]
            self.aborting[producer] = (producer, first, marker)
            self.seen += 1
        return 0

    cdef bint is_aborted(self, const BatchInfo* info) except -1:
        """Return whether a data batch belongs to an aborted transaction."""
        self.follow(info)
        if info.attributes & ATTRIBUTE_TRANSACTIONAL == 0:
            return False
        if info.producer_id in self.aborting:
            self.observed.add(info.producer_id)
            return True
        self.committing.add(info.producer_id)
        return False

    cdef bint is_done(self, const BatchInfo* info, Cursor records) except -1:
        """Return whether a control batch is the marker of a transaction without remaining batches.
        """
        cdef RecordFields fields
        self.follow(info)
        if not (info.record_count > 0 and record_take(&records, &fields)
                and fields.key.length >= CONTROL_KEY_SIZE):
            return False    # an unknown kind of control batch is kept
        if load_int16(fields.key.start + 2) == ABORT_MARKER:
            transaction = self.aborting.pop(info.producer_id, None)
            if info.producer_id not in self.observed:
                return True
            self.observed.discard(info.producer_id)
            self.kept.append(transaction)
            return False
        if info.producer_id in self.committing:
            self.committing.discard(info.producer_id)
            return False
        return True


cdef class BatchWalk:
    """`decompress(codec, data, output)` decompresses into a buffer and returns the size."""

    def __cinit__(self, *_, decompress, int64_t decompressed_bytes_max, aborted=(), **__):
        self.decompress = decompress
        self.decompressed_bytes_max = min(decompressed_bytes_max, <int64_t>INT32_MAX)
        self.transactions = WalkedTransactions(aborted)
        self.next_offset = 0

    cdef int set_input(self, const uint8_t* data, Py_ssize_t size) except -1:
        self.start = self.batch = self.cursor.next = data
        self.cursor.left = <size_t>size
        return 0

    cdef Py_ssize_t position(self) noexcept:
        """Return the position of the batch in the input."""
        return self.batch - self.start

    cdef bint advance(self) except -1:
        """Go to the next whole batch; False when there is none."""
        cdef BatchStatus status
        self.batch = self.cursor.next
        status = batch_header(&self.cursor, &self.info)
        if status == BATCH_EMPTY or status == BATCH_TRUNCATED:
            return False
        if status == BATCH_OK:
            status = batch_check_crc(self.batch, &self.info)
        if status != BATCH_OK:
            raise Corrupt(f"batch: {batch_status_text(status)}", self.position())
        if not self.next_offset <= self.info.base_offset < INT64_MAX - INT32_MAX:
            raise Corrupt(f"batch: offset {self.info.base_offset}, expected {self.next_offset} or "
                          f"more", self.position())
        if self.info.last_offset_delta < 0 or self.info.record_count < 0:
            raise Corrupt(f"batch: {self.info.record_count} records up to offset delta "
                          f"{self.info.last_offset_delta}", self.position())
        self.next_offset = batch_last_offset(&self.info) + 1
        return True

    cdef Cursor records(self) except *:
        """Return the batch's records, decompressed if necessary; valid until the next call."""
        cdef Cursor records
        cdef int codec = self.info.attributes & ATTRIBUTE_CODEC
        records.next = self.batch + BATCH_HEADER_SIZE
        records.left = self.info.size - BATCH_HEADER_SIZE
        if codec and records.left:
            self.decompress_records(codec, &records)
        if <size_t>self.info.record_count > records.left // record_size_min:
            raise Corrupt(f"batch: {self.info.record_count} records in {records.left} bytes",
                          self.position())
        return records

    cdef int decompress_records(self, int codec, Cursor* records) except -1:
        cdef Py_ssize_t room, count
        source = PyMemoryView_FromMemory(
            <char*>records.next, <Py_ssize_t>records.left, PyBUF_READ)
        room = min(<int64_t>records.left * COMPRESSION_RATIO, self.decompressed_bytes_max)
        while True:
            if self.decompressed is None:
                self.decompressed = column_new(COLUMN_BYTE, room)
            self.decompressed.count = 0
            self.decompressed.reserve(room)
            room = min(self.decompressed.capacity, self.decompressed_bytes_max)
            output = PyMemoryView_FromMemory(<char*>self.decompressed.data, room, PyBUF_WRITE)
            try:
                count = self.decompress(codec, source, output)
                break
            except LimitExceeded:
                if room == self.decompressed_bytes_max:
                    raise LimitExceeded(
                        f"batch: decompresses to more than the {room} bytes allowed",
                        self.position()) from None
                room = min(2 * room, self.decompressed_bytes_max)
            except CodecError as error:
                raise type(error)(f"batch: {error.reason}", self.position()) from None
        if not 0 <= count <= room:
            raise SystemError(f"{count} bytes decompressed into {room}")
        records.next = <const uint8_t*>self.decompressed.data
        records.left = <size_t>count
        return 0
