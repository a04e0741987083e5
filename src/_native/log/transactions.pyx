"""The transactions of one log that are open, or whose marker is not visible yet (KIP-98).

The coordinator admits a producer's transaction once it has recorded that this partition takes part
in it, and dismisses it when it is committed or aborted. In between, the producer's batches of that
epoch are accepted; a late batch is not, because it would open a transaction that is never ended
(KIP-890).

A producer's first transactional batch opens a transaction; the coordinator's control batch, its
marker, ends it. Readers of committed records read up to the last stable offset: the first offset of
the oldest transaction that is open, or that has ended with its marker at or above the high
watermark. A replica begins with a high watermark below its end, so a start keeps the transactions
that have ended in between.

A marker is a control batch of one record (Kafka protocol guide, "Control Records"):

    key    int16 version = 0 | int16 type: 0 abort, 1 commit
    value  int16 version = 0 | int32 coordinator epoch
"""

cimport cython
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, realloc

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
        self.restored = []
        self.first_undecided = INT64_MAX

    def __dealloc__(self):
        free(self.admissions)

    cdef int admit(self, int64_t producer_id, int16_t epoch) except -1:
        """Accept a producer's transactional batches of an epoch, and of no other epoch."""
        cdef Admission* admission = self.admission_of(producer_id)
        cdef int32_t capacity
        cdef void* grown
        if admission == NULL:
            if self.admission_count == self.admission_capacity:
                capacity = max(4, self.admission_capacity * 2)
                grown = realloc(self.admissions, capacity * sizeof(Admission))
                if grown == NULL:
                    raise MemoryError
                self.admissions = <Admission*>grown
                self.admission_capacity = capacity
            admission = &self.admissions[self.admission_count]
            admission.producer_id = producer_id
            self.admission_count += 1
        admission.epoch = epoch
        return 0

    cdef void dismiss(self, int64_t producer_id) noexcept:
        """Accept no more transactional batches of a producer."""
        cdef Admission* admission = self.admission_of(producer_id)
        if admission != NULL:
            self.admission_count -= 1
            admission[0] = self.admissions[self.admission_count]

    cdef void dismiss_all(self) noexcept:
        """Accept no more transactional batches at all."""
        self.admission_count = 0

    cdef bint admits(self, int64_t producer_id, int16_t epoch) noexcept:
        """Return whether a producer's transactional batches of an epoch are accepted."""
        cdef Admission* admission = self.admission_of(producer_id)
        return admission != NULL and admission.epoch == epoch

    cdef Admission* admission_of(self, int64_t producer_id) noexcept:
        cdef int32_t i
        for i in range(self.admission_count):
            if self.admissions[i].producer_id == producer_id:
                return &self.admissions[i]
        return NULL

    cdef void begin(self, int64_t producer_id, int64_t first_offset):
        """Open a transaction with a producer's first transactional batch."""
        if producer_id not in self.open:
            self.open[producer_id] = first_offset
            self.first_undecided = min(self.first_undecided, first_offset)

    cdef void end(self, int64_t producer_id, int64_t marker_offset):
        """End a producer's transaction by its marker."""
        self.dismiss(producer_id)
        first_offset = self.open.pop(producer_id, None)
        if first_offset is not None and marker_offset >= self.restored_from:
            self.ended.append((first_offset, marker_offset))

    cdef int64_t first_of(self, int64_t producer_id):
        """Return the first offset of a producer's open transaction, -1 if it has none."""
        return self.open.get(producer_id, -1)

    cdef int64_t first_open_after(self, int64_t marker_offset, int64_t producer_id):
        """Return the last stable offset as it will be once a producer's marker is visible."""
        cdef int64_t first = marker_offset + 1
        for producer, first_offset in self.open.items():
            if producer != producer_id:
                first = min(first, first_offset)
        return first

    cdef void reached(self, int64_t high_watermark):
        """Remove ended transactions whose markers are below the high watermark."""
        if self.ended and self.ended[0][1] < high_watermark:
            self.ended = [each for each in self.ended if each[1] >= high_watermark]
            self.find_first()

    cdef void opened(self):
        """Count all as visible that recovery has found, unless `lowered` is next."""
        self.restored, self.ended = self.ended, []
        self.restored_from = 0
        self.find_first()

    cdef void lowered(self, int64_t high_watermark):
        """Count ended transactions as undecided whose markers are not below the high watermark."""
        self.ended = sorted(
            [each for each in {*self.ended, *self.restored} if each[1] >= high_watermark],
            key=lambda each: each[1])
        self.restored = []
        self.find_first()

    cdef void find_first(self):
        self.first_undecided = min(
            [*self.open.values(), *[first for first, _ in self.ended]], default=INT64_MAX)


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
