"""Whole batches of a log's bytes, checked one after another, and what becomes of transactions.

For those who read a log to write it anew. Every CRC is checked, offsets ascend, and what a header
says of its records is believed only after they were read: damaged bytes are Corrupt, a batch that
is cut short ends the bytes at hand.
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
    FOLDED_RATIO = 16            # room for what a batch may unfold to, before it is known
    ABORT_MARKER = 0             # the type in a control record's key; 1 is a commit
    CONTROL_KEY_SIZE = 4         # int16 version, int16 type


@final
cdef class WalkedTransactions:
    """Which are open at the batch we are at, as Kafka's cleaner follows them.

    `aborted` has (producer id, first offset, marker's offset) of each aborted one.
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
        """Whether a data batch belongs to an aborted transaction."""
        self.follow(info)
        if info.attributes & ATTRIBUTE_TRANSACTIONAL == 0:
            return False
        if info.producer_id in self.aborting:
            self.observed.add(info.producer_id)
            return True
        self.committing.add(info.producer_id)
        return False

    cdef bint is_done(self, const BatchInfo* info, Cursor records) except -1:
        """Whether a control batch is the marker of a transaction that has no batch left here."""
        cdef RecordFields fields
        self.follow(info)
        if not (info.record_count > 0 and record_take(&records, &fields)
                and fields.key.length >= CONTROL_KEY_SIZE):
            return False    # of a kind that is not known here: it stays
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
    """`unfold(codec, data, output)` unfolds into a buffer and returns the size."""

    def __cinit__(self, *_, unfold, int64_t unfolded_bytes_max, aborted=(), **__):
        self.unfold = unfold
        self.unfolded_bytes_max = min(unfolded_bytes_max, <int64_t>INT32_MAX)
        self.transactions = WalkedTransactions(aborted)
        self.next_offset = 0

    cdef int set_input(self, const uint8_t* data, Py_ssize_t size) except -1:
        self.start = self.batch = self.cursor.next = data
        self.cursor.left = <size_t>size
        return 0

    cdef Py_ssize_t position(self) noexcept:
        """Where the batch stands in the bytes at hand."""
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
        """Return the bytes of the batch's records, unfolded if need be; until the next call."""
        cdef Cursor records
        cdef int codec = self.info.attributes & ATTRIBUTE_CODEC
        records.next = self.batch + BATCH_HEADER_SIZE
        records.left = self.info.size - BATCH_HEADER_SIZE
        if codec and records.left:
            self.unfold_records(codec, &records)
        if <size_t>self.info.record_count > records.left // record_size_min:
            raise Corrupt(f"batch: {self.info.record_count} records in {records.left} bytes",
                          self.position())
        return records

    cdef int unfold_records(self, int codec, Cursor* records) except -1:
        cdef Py_ssize_t room, count
        source = PyMemoryView_FromMemory(
            <char*>records.next, <Py_ssize_t>records.left, PyBUF_READ)
        room = min(<int64_t>records.left * FOLDED_RATIO, self.unfolded_bytes_max)
        while True:
            if self.unfolded is None:
                self.unfolded = column_new(COLUMN_BYTE, room)
            self.unfolded.count = 0
            self.unfolded.reserve(room)
            room = min(self.unfolded.capacity, self.unfolded_bytes_max)
            output = PyMemoryView_FromMemory(<char*>self.unfolded.data, room, PyBUF_WRITE)
            try:
                count = self.unfold(codec, source, output)
                break
            except LimitExceeded:
                if room == self.unfolded_bytes_max:
                    raise LimitExceeded(f"batch: unfolds to more than the {room} bytes allowed",
                                        self.position()) from None
                room = min(2 * room, self.unfolded_bytes_max)
            except CodecError as error:
                raise type(error)(f"batch: {error.reason}", self.position()) from None
        if not 0 <= count <= room:
            raise SystemError(f"{count} bytes unfolded into {room}")
        records.next = <const uint8_t*>self.unfolded.data
        records.left = <size_t>count
        return 0
