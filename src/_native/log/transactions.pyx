"""The transactions of one log that are not decided, or whose decision is not visible yet (KIP-98).

The coordinator admits a producer's transaction, once it has written down that this partition takes
part in it, and dismisses it when it is decided: in between, the producer's batches of that epoch
are taken, so that no late one opens a transaction that nobody would end (KIP-890).

A producer's first transactional batch opens a transaction; the coordinator's control batch, its
marker, ends it. Readers of committed records read up to the first offset of the oldest transaction
that is still open (the last stable offset), and of one that has ended, until the high watermark has
passed its marker.

A marker is a control batch of one record (Kafka protocol guide, "Control Records"):

    key    int16 version = 0 | int16 type: 0 abort, 1 commit
    value  int16 version = 0 | int32 coordinator epoch
"""

cimport cython
from libc.stdint cimport INT64_MAX, int16_t, int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor, load_int16, load_int32
from broker._native.records.record_batch cimport BATCH_HEADER_SIZE, BatchInfo
from broker._native.records.record_walk cimport RecordFields, record_take

cdef enum:
    TYPE_ABORT = 0
    TYPE_COMMIT = 1
    KEY_SIZE = 4
    VALUE_SIZE = 6


@cython.final
cdef class Transactions:
    """The undecided transactions of one log."""

    def __cinit__(self):
        self.open = {}
        self.ended = []
        self.admitted = {}
        self.first_undecided = INT64_MAX

    cdef bint admits(self, int64_t producer_id, int16_t epoch):
        """Whether a producer's transactional batches of an epoch are taken."""
        return self.admitted.get(producer_id) == epoch

    cdef bint is_open(self, int64_t producer_id):
        """Whether a producer's transaction has batches here and no marker yet."""
        return producer_id in self.open

    cdef void begin(self, int64_t producer_id, int64_t first_offset):
        """A producer's transactional batch was appended."""
        if producer_id not in self.open:
            self.open[producer_id] = first_offset
            self.first_undecided = min(self.first_undecided, first_offset)

    cdef int64_t end(self, int64_t producer_id, int64_t marker_offset):
        """A producer's marker was appended: where its transaction began, -1 if it had none."""
        self.admitted.pop(producer_id, None)
        first_offset = self.open.pop(producer_id, None)
        if first_offset is None:
            return -1
        self.ended.append((first_offset, marker_offset))
        return first_offset

    cdef int64_t first_open_after(self, int64_t marker_offset):
        """The last stable offset as it will be once a marker is visible."""
        return min(self.open.values(), default=marker_offset + 1)

    cdef void reached(self, int64_t high_watermark):
        """Everything below the high watermark is visible: also the markers there."""
        if self.ended and self.ended[0][1] < high_watermark:
            self.ended = [each for each in self.ended if each[1] >= high_watermark]
            self.count_again()

    cdef void count_again(self):
        cdef int64_t first = min(self.open.values(), default=INT64_MAX)
        self.first_undecided = min([each[0] for each in self.ended], default=first)
        self.first_undecided = min(self.first_undecided, first)


cdef bint read_marker(const uint8_t* batch, BatchInfo* info, Marker* marker) noexcept nogil:
    """Read the control record of a batch; False when it is not a transaction's end."""
    cdef RecordFields fields
    cdef Cursor cursor
    cdef int16_t kind
    cursor.next = batch + BATCH_HEADER_SIZE
    cursor.left = info.size - BATCH_HEADER_SIZE
    if (info.record_count < 1 or not record_take(&cursor, &fields)
            or fields.key.length < KEY_SIZE or fields.value.length < VALUE_SIZE):
        return False
    kind = load_int16(fields.key.start + 2)
    if kind not in (TYPE_ABORT, TYPE_COMMIT):
        return False
    marker.is_abort = kind == TYPE_ABORT
    marker.coordinator_epoch = load_int32(fields.value.start + 2)
    return True
