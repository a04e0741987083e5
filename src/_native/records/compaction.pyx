"""Compacts a log: keeps the newest record of each key; offsets never change.

One pass reads the log twice. `KeyCollector` records the offset of every key's newest record in the
dirty part, until the map is full; `RecordFilter` then rewrites the log from its beginning up to
there:

    a record          is kept when the map has no newer one of its key; without a key it is removed
    a tombstone       (a null value) likewise, but only until its batch's delete horizon
    a batch           that loses no record is copied byte for byte. One that loses some keeps base
                      offset, last offset delta, sequence and base timestamp, so that its other
                      records are copied unchanged. One that loses all is removed; of the last one
                      of a live producer the header is kept, for its sequence.
    a control batch   is kept as long as its transaction has records, then until its horizon

The delete horizon (KIP-534) is the time up to which a tombstone or marker must be kept for readers
to see it: now + delete.retention.ms when it is first cleaned. It replaces the base timestamp, which
bit 6 of the attributes indicates, and the records' timestamp deltas are relative to it.

Source: Kafka's Cleaner and MemoryRecords.filterTo; KIP-98 (empty batches), KIP-534.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from cython cimport final

from broker._native.kernel.cursor cimport Cursor, cursor_take, cursor_varint, cursor_varlong
from broker._native.kernel.varint cimport store_varint, varint_size, zigzag
from broker._native.records.batch_walk cimport BatchWalk
from broker._native.records.column cimport COLUMN_BYTE, Column, column_new, column_reuse
from broker._native.records.key_map cimport KeyHash, KeyMap
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_LOG_APPEND_TIME,
    BATCH_HEADER_SIZE,
    BatchInfo,
    batch_last_offset,
    batch_store_header,
    sum_wrapped,
)
from broker._native.records.record_walk cimport RecordFields, record_take

from broker.model.errors import Corrupt

cdef enum WalkStatus:
    WALK_DONE
    WALK_FULL            # the map is full
    WALK_DAMAGED         # records that do not match their lengths, count or offsets

cdef enum:
    AHEAD_MAX = 32               # records read before the first key is looked up
    # A timestamp delta of one byte may need ten with another base, and the length one more.
    RECORD_GROWTH_MAX = 10


# ---- the keys ------------------------------------------------------------------------------------

@final
cdef class KeyCollector(BatchWalk):
    """Fills `key_map` with the keys of the records in [first_offset, end_offset)."""

    cdef KeyMap key_map
    cdef int64_t first_offset, end_offset
    cdef readonly bint is_done      # the end is reached, or the map is full

    def __cinit__(self, KeyMap key_map not None, *, int64_t first_offset, int64_t end_offset, **_):
        self.key_map = key_map
        self.key_map.end_offset = self.first_offset = first_offset
        self.end_offset = end_offset

    def add(self, data):
        """Read the next bytes of the log; return where their last whole batch ends.

        Raises:
            CodecError: a batch is damaged.
        """
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.set_input(<const uint8_t*>view.buf, view.len)
            while not self.is_done and self.advance():
                self.add_batch()
            return view.len - <Py_ssize_t>self.cursor.left
        finally:
            PyBuffer_Release(&view)

    cdef int add_batch(self) except -1:
        cdef BatchInfo* info = &self.info
        cdef WalkStatus status = WALK_DONE
        if info.base_offset >= self.end_offset:
            self.key_map.end_offset = self.end_offset
            self.is_done = True
            return 0
        if info.attributes & ATTRIBUTE_CONTROL:
            self.transactions.is_done(info, self.records())
        elif not self.transactions.is_aborted(info) and (
                batch_last_offset(info) >= self.first_offset):
            status = collect_keys(
                self.records(), info, self.first_offset, self.end_offset, self.key_map)
        if status == WALK_DAMAGED:
            raise Corrupt("batch: records do not fit the header, in the batch", self.position())
        if status == WALK_FULL:
            self.is_done = True
        else:
            self.key_map.end_offset = min(
                self.end_offset, max(self.first_offset, batch_last_offset(info) + 1))
        return 0


cdef struct Ahead:
    KeyHash hash
    int64_t offset
    int64_t timestamp_delta
    bint has_key
    bint has_value


cdef int32_t look_ahead(Cursor* records, const BatchInfo* info, int32_t* last_delta,
                        int32_t count, KeyMap key_map, Ahead* rows) noexcept nogil:
    """Read some records and prefetch the slots of their keys; return the count, -1: damaged."""
    cdef RecordFields fields
    cdef Ahead* row
    cdef int32_t i
    if count > AHEAD_MAX:
        count = AHEAD_MAX
    for i in range(count):
        if not record_take(records, &fields):
            return -1
        if fields.offset_delta <= last_delta[0] or fields.offset_delta > info.last_offset_delta:
            return -1
        last_delta[0] = fields.offset_delta
        row = &rows[i]
        row.offset = info.base_offset + fields.offset_delta
        row.timestamp_delta = fields.timestamp_delta
        row.has_value = fields.value.length >= 0
        row.has_key = fields.key.length >= 0
        if row.has_key:
            row.hash = key_map.foresee(&fields.key)
    return count


cdef WalkStatus collect_keys(Cursor records, const BatchInfo* info, int64_t first_offset,
                             int64_t end_offset, KeyMap key_map) noexcept:
    cdef Ahead[AHEAD_MAX] rows
    cdef Ahead* row
    cdef int32_t last_delta = -1, done = 0, count, i
    while done < info.record_count:
        count = look_ahead(&records, info, &last_delta, info.record_count - done, key_map, rows)
        if count < 0:
            return WALK_DAMAGED
        for i in range(count):
            row = &rows[i]
            if first_offset <= row.offset < end_offset and row.has_key and (
                    not key_map.put(&row.hash, row.offset)):
                key_map.end_offset = row.offset
                return WALK_FULL
        done += count
    return WALK_DONE if records.left == 0 else WALK_DAMAGED


# ---- the filter ----------------------------------------------------------------------------------

cdef struct Verdict:
    int32_t kept                 # count of records kept
    int64_t max_timestamp        # of those
    bint has_tombstone           # whether one of those is a tombstone below the map's end


@final
cdef class RecordFilter(BatchWalk):
    """Rewrites a log up to the end of its map; what follows is copied.

    `compress(codec, data)` compresses; `producer_ends` has (producer id, epoch, last offset) of
    each live producer. The counts are over all input so far.
    """

    cdef KeyMap key_map
    cdef object compress
    cdef dict producer_ends
    cdef int64_t now_ms, delete_retention_ms
    cdef Column verdicts         # a byte per record of the current batch
    cdef Column plain            # its remaining records before compression
    cdef Column output
    cdef readonly int64_t records_read
    cdef readonly int64_t records_kept
    cdef readonly int64_t batches_changed    # removed or modified

    def __cinit__(self, KeyMap key_map not None, *, compress, int64_t now_ms,
                  int64_t delete_retention_ms, producer_ends=(), **_):
        self.key_map = key_map
        self.compress = compress
        self.now_ms = now_ms
        self.delete_retention_ms = delete_retention_ms
        self.producer_ends = {producer: (epoch, last) for producer, epoch, last in producer_ends}
        self.verdicts = column_new(COLUMN_BYTE, 0)
        self.plain = column_new(COLUMN_BYTE, 0)
        self.output = column_new(COLUMN_BYTE, 0)

    def filter(self, data):
        """Return (batches, end): the remaining batches, and where the last whole batch ends.

        Raises:
            CodecError: a batch is damaged.
        """
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.output = column_reuse(self.output, COLUMN_BYTE, view.len)
            self.set_input(<const uint8_t*>view.buf, view.len)
            while self.advance():
                self.filter_batch()
            return self.output, view.len - <Py_ssize_t>self.cursor.left
        finally:
            PyBuffer_Release(&view)

    def take_aborted(self):
        """Return the aborted transactions since the last call that readers still need.

        (producer id, first offset, marker's offset) of those that had batches in the input.
        """
        kept, self.transactions.kept = self.transactions.kept, []
        return kept

    cdef int filter_batch(self) except -1:
        cdef BatchInfo* info = &self.info
        cdef bint has_horizon = info.attributes & ATTRIBUTE_DELETE_HORIZON != 0
        cdef bint is_done = False
        cdef Cursor records
        cdef Verdict verdict
        verdict.kept = info.record_count
        verdict.max_timestamp = info.max_timestamp
        verdict.has_tombstone = False
        self.records_read += info.record_count
        records.left = 0
        if info.attributes & ATTRIBUTE_CONTROL:
            records = self.records()
            self.must(records_fit(records, info))
            is_done = self.transactions.is_done(info, records)
            if is_done and has_horizon and info.base_timestamp <= self.now_ms:
                verdict.kept = 0
        elif self.transactions.is_aborted(info):
            verdict.kept = 0
        elif info.record_count > 0:
            records = self.records()
            self.judge(records, &verdict)
        self.records_kept += verdict.kept
        self.batches_changed += 1
        if verdict.kept == 0:
            self.put_empty()
        elif (verdict.has_tombstone or is_done) and not has_horizon:
            self.put_rest(records, &verdict, True)
        elif verdict.kept == info.record_count:
            self.batches_changed -= 1
            self.put(self.batch, info.size)
        else:
            self.put_rest(records, &verdict, False)
        return 0

    cdef int judge(self, Cursor records, Verdict* verdict) except -1:
        """Decide about each record of a data batch."""
        self.verdicts.count = 0
        self.verdicts.reserve(self.info.record_count)
        return self.must(judge_records(records, &self.info, self.key_map, self.now_ms,
                                       <uint8_t*>self.verdicts.data, verdict))

    cdef int must(self, WalkStatus status) except -1:
        if status != WALK_DONE:
            raise Corrupt("batch: records do not fit the header, in the batch", self.position())
        return 0

    cdef int put(self, const uint8_t* data, size_t size) except -1:
        self.output.grow(self.output.count + <Py_ssize_t>size)
        memcpy(<uint8_t*>self.output.data + self.output.count, data, size)
        self.output.count += <Py_ssize_t>size
        return 0

    cdef int put_empty(self) except -1:
        """Write the header of an emptied batch if it is a live producer's last; else nothing."""
        cdef BatchInfo* info = &self.info
        cdef bint is_last = False
        if info.producer_id >= 0:
            end = self.producer_ends.get(info.producer_id)
            if end is not None and end[1] >= 0:
                is_last = end[1] == batch_last_offset(info)
            elif end is not None:    # its last batch is a marker
                is_last = info.attributes & ATTRIBUTE_CONTROL and end[0] == info.producer_epoch
        if not is_last:
            return 0
        if info.record_count == 0:
            self.batches_changed -= 1
            return self.put(self.batch, info.size)
        self.put(self.batch, BATCH_HEADER_SIZE)
        info.attributes &= ~(ATTRIBUTE_CODEC | ATTRIBUTE_DELETE_HORIZON)
        info.base_timestamp = -1
        self.seal(self.output.count - BATCH_HEADER_SIZE, 0)
        return 0

    cdef int put_rest(self, Cursor records, const Verdict* verdict, bint with_horizon) except -1:
        """Write the batch with the remaining records, and set its delete horizon if asked to."""
        cdef BatchInfo* info = &self.info
        cdef Py_ssize_t start = self.output.count
        cdef int codec = info.attributes & ATTRIBUTE_CODEC
        cdef int64_t shift = 0
        cdef Column into = self.plain if codec else self.output
        cdef const uint8_t* verdicts = NULL    # all records of a control batch are kept
        cdef Py_ssize_t room = <Py_ssize_t>records.left
        if not info.attributes & ATTRIBUTE_CONTROL:
            verdicts = <const uint8_t*>self.verdicts.data
        if with_horizon:
            horizon = min(self.now_ms + <object>self.delete_retention_ms, INT64_MAX)
            shift = sum_wrapped(info.base_timestamp, -<int64_t>horizon)
            info.base_timestamp = horizon
            info.attributes |= ATTRIBUTE_DELETE_HORIZON
            room += info.record_count * <Py_ssize_t>RECORD_GROWTH_MAX
        self.put(self.batch, BATCH_HEADER_SIZE)
        if codec:
            into.count = 0
        into.grow(into.count + room)
        if with_horizon:
            into.count += copy_records(records, info.record_count, verdicts, shift,
                                       <uint8_t*>into.data + into.count)
        else:
            into.count += copy_runs(records, info.record_count, verdicts,
                                    <uint8_t*>into.data + into.count)
        if codec:
            compressed = self.compress(codec, PyMemoryView_FromMemory(
                <char*>into.data, into.count, PyBUF_READ))
            self.put(<const uint8_t*>PyBytes_AS_STRING(compressed), PyBytes_GET_SIZE(compressed))
        if not info.attributes & ATTRIBUTE_LOG_APPEND_TIME:
            info.max_timestamp = verdict.max_timestamp
        self.seal(start, verdict.kept)
        return 0

    cdef void seal(self, Py_ssize_t start, int32_t count) noexcept:
        """Update the header of the batch at the end of the output."""
        self.info.size = <size_t>(self.output.count - start)
        self.info.record_count = count
        batch_store_header(<uint8_t*>self.output.data + start, &self.info)


cdef WalkStatus records_fit(Cursor records, const BatchInfo* info) noexcept:
    """Check the records of a control batch, which are kept or removed together."""
    cdef RecordFields fields
    cdef int32_t _i
    for _i in range(info.record_count):
        if not record_take(&records, &fields):
            return WALK_DAMAGED
    return WALK_DONE if records.left == 0 else WALK_DAMAGED


cdef WalkStatus judge_records(Cursor records, const BatchInfo* info, KeyMap key_map, int64_t now_ms,
                              uint8_t* verdicts, Verdict* verdict) noexcept:
    cdef Ahead[AHEAD_MAX] rows
    cdef Ahead* row
    cdef int32_t last_delta = -1, done = 0, count, i
    cdef int64_t timestamp
    cdef bint is_over = (info.attributes & ATTRIBUTE_DELETE_HORIZON != 0
                         and info.base_timestamp <= now_ms)
    verdict.kept = 0
    verdict.max_timestamp = INT64_MIN
    while done < info.record_count:
        count = look_ahead(&records, info, &last_delta, info.record_count - done, key_map, rows)
        if count < 0:
            return WALK_DAMAGED
        for i in range(count):
            row = &rows[i]
            if row.offset < key_map.end_offset:
                verdicts[done] = (row.has_key and (row.has_value or not is_over)
                                  and row.offset >= key_map.find(&row.hash))
                if verdicts[done] and not row.has_value:
                    verdict.has_tombstone = True
            else:
                verdicts[done] = True
            if verdicts[done]:
                verdict.kept += 1
                timestamp = sum_wrapped(info.base_timestamp, row.timestamp_delta)
                verdict.max_timestamp = max(verdict.max_timestamp, timestamp)
            done += 1
    return WALK_DONE if records.left == 0 else WALK_DAMAGED


# ---- copies of records that were checked, into memory that is large enough -----------------------

cdef Py_ssize_t copy_runs(Cursor records, int32_t count, const uint8_t* verdicts,
                          uint8_t* into) noexcept:
    """Copy records unchanged, adjacent ones together; return their size."""
    cdef const uint8_t* run = records.next
    cdef const uint8_t* record
    cdef uint8_t* next = into
    cdef int32_t length = 0
    cdef int32_t i
    for i in range(count):
        record = records.next
        cursor_varint(&records, &length)
        cursor_take(&records, <size_t>length)
        if not verdicts[i]:
            memcpy(next, run, <size_t>(record - run))
            next += record - run
            run = records.next
    memcpy(next, run, <size_t>(records.next - run))
    return next + (records.next - run) - into


cdef Py_ssize_t copy_records(Cursor records, int32_t count, const uint8_t* verdicts, int64_t shift,
                             uint8_t* into) noexcept:
    """Copy records with timestamp deltas to another base; return their size."""
    cdef Cursor record
    cdef uint8_t* next = into
    cdef int32_t length = 0
    cdef int32_t i
    cdef int64_t delta = 0
    cdef uint64_t shifted
    for i in range(count):
        cursor_varint(&records, &length)
        record.next = cursor_take(&records, <size_t>length)
        record.left = <size_t>length
        if verdicts != NULL and not verdicts[i]:
            continue
        attributes = cursor_take(&record, 1)
        cursor_varlong(&record, &delta)
        shifted = zigzag(sum_wrapped(delta, shift))
        next = store_varint(next, zigzag(1 + varint_size(shifted) + <int64_t>record.left))
        next[0] = attributes[0]
        next = store_varint(next + 1, shifted)
        memcpy(next, record.next, record.left)
        next += record.left
    return next - into
