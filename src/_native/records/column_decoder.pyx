"""Decodes batches and message sets to columns.

One call makes two passes over the bytes. The first reads headers only: it finds where the last
whole batch ends, which batches may have requested records, how many rows they have at most and
whether any is compressed. The second checks CRCs, decompresses, and lets rows.pyx write the rows.

Spans are positions in the input when none of the requested batches is compressed. Otherwise they
are positions in a buffer to which all of them are decompressed or copied: one buffer in any case.

    entry    of the input: a version 2 batch, or a message of magic 0 or 1
    wanted   neither a control batch, nor aborted, nor outside of the ranges
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITE, PyBuffer_Release
from cpython.buffer cimport PyObject_GetBuffer
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT32_MAX, INT64_MAX, INT64_MIN, int8_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from operator import index

from cython cimport final

from broker._native.kernel.cursor cimport Cursor, load_int16
from broker._native.records.column cimport (
    COLUMN_BYTE, COLUMN_INT8, COLUMN_INT32, COLUMN_INT64, Column, column_reuse,
)
from broker._native.records.legacy_message cimport (
    Message, entry_take, message_check_crc, message_take,
)
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_COUNT,
    BATCH_EMPTY,
    BATCH_HEADER_SIZE,
    BATCH_OK,
    BATCH_TRUNCATED,
    BatchInfo,
    BatchStatus,
    batch_check_crc,
    batch_last_offset,
    batch_status_text,
    sum_wrapped,
)
from broker._native.records.record_walk cimport RecordFields, record_take
from broker._native.records.rows cimport (
    ROWS_HEADERS_FULL,
    ROWS_LEFT_OVER,
    ROWS_OK,
    Filter,
    KeyFilter,
    RowBasis,
    RowStatus,
    Rows,
    SpanColumn,
    row_put,
    rows_of_batch,
)

from broker.model import limits
from broker.model.errors import CodecError, Corrupt, LimitExceeded, Truncated

cdef enum:
    OFFSET, TIMESTAMP, TIMESTAMP_TYPE, KEY_START, KEY_LENGTH, VALUE_START, VALUE_LENGTH
    HEADER_END, HEADER_KEY_START, HEADER_KEY_LENGTH, HEADER_VALUE_START, HEADER_VALUE_LENGTH
    DECOMPRESSED
    COLUMNS

cdef tuple NAMES = (
    "offset", "timestamp", "timestamp_type", "key_start", "key_length", "value_start",
    "value_length", "header_end", "header_key_start", "header_key_length", "header_value_start",
    "header_value_length", "decompressed",
)
cdef int[13] KINDS = [
    COLUMN_INT64, COLUMN_INT64, COLUMN_INT8, COLUMN_INT32, COLUMN_INT32, COLUMN_INT32,
    COLUMN_INT32, COLUMN_INT32, COLUMN_INT32, COLUMN_INT32, COLUMN_INT32, COLUMN_INT32, COLUMN_BYTE,
]
# The columns that may be requested, and the first and last of their arrays.
cdef dict GROUPS = {
    "offset": (OFFSET, OFFSET),
    "timestamp": (TIMESTAMP, TIMESTAMP),
    "timestamp_type": (TIMESTAMP_TYPE, TIMESTAMP_TYPE),
    "key": (KEY_START, KEY_LENGTH),
    "value": (VALUE_START, VALUE_LENGTH),
    "headers": (HEADER_END, HEADER_VALUE_LENGTH),
}
COLUMN_NAMES = tuple(GROUPS)

cdef int32_t record_size_min = limits.RECORD_BYTES_MIN

cdef enum:
    COMPRESSION_RATIO = 16       # initial estimate of a batch's decompressed size
    ABORT_MARKER = 0             # the type in a control record's key; 1 is a commit
    CONTROL_KEY_SIZE = 4         # int16 version, int16 type


def decode_columns(data, columns, decompress, *, bytes_max, bint check_crc=True,
                   min_offset=None, max_offset=None, min_timestamp=None, max_timestamp=None,
                   key_filter=None, aborted=None, dict reuse=None, bint is_strict=False):
    """Return (rows, end, data, arrays): arrays by name, and the data that their spans index.

    `decompress(codec, data, output)` decompresses a batch into a buffer and returns the size; it
    raises LimitExceeded when the buffer is too small. `end` is the position after the last whole
    batch. When strict, control batches are read as well, offsets must ascend within the header's
    range, and nothing may be incomplete; "offset" must be one of the columns.
    """
    cdef _Decoder decoder = _Decoder(data)
    decoder.decompress = decompress
    decoder.check_crc = check_crc
    decoder.is_strict = is_strict
    decoder.bytes_max = min(bound("bytes_max", bytes_max), INT32_MAX)
    if decoder.bytes_max < 0:
        raise ValueError(f"bytes_max {bytes_max}, expected 0 or more")
    decoder.filter.min_offset = bound("min_offset", min_offset, INT64_MIN)
    decoder.filter.max_offset = bound("max_offset", max_offset, INT64_MAX)
    decoder.filter.min_timestamp = bound("min_timestamp", min_timestamp, INT64_MIN)
    decoder.filter.max_timestamp = bound("max_timestamp", max_timestamp, INT64_MAX)
    # Not a chained `is`: Cython 3.3 negates only its first link.
    decoder.filter.is_set = (min_offset is not None or max_offset is not None
                             or min_timestamp is not None or max_timestamp is not None)
    if key_filter is not None:
        decoder.keys = KeyFilter(key_filter)
        decoder.keys.apply(&decoder.filter)
    if aborted is not None:
        decoder.aborted = sorted([(int(first), int(producer)) for producer, first in aborted])
    decoder.measure()
    decoder.choose(columns, {} if reuse is None else reuse)
    decoder.read()
    return decoder.result()


cdef int64_t bound(str name, value, default=None) except? -1:
    """Return a bound that the caller has set, or the default."""
    number = index(default if value is None else value)
    if not INT64_MIN <= number <= INT64_MAX:
        raise ValueError(f"{name} {number}, expected 64 bits")
    return number


@final
cdef class _Decoder:
    cdef object data
    cdef Py_buffer view
    cdef bint has_view
    cdef object decompress
    cdef bint check_crc
    cdef bint is_strict
    cdef int64_t bytes_max
    cdef Filter filter
    cdef KeyFilter keys
    cdef list aborted            # (first offset, producer id), ascending; None: keep all
    cdef set aborting            # producers with an aborted transaction open at this batch
    cdef size_t aborted_seen
    cdef size_t end              # after the last whole entry
    cdef Py_ssize_t rows_max     # of uncompressed batches: bounded by their bytes
    cdef size_t compressed       # bytes of the compressed ones
    cdef size_t plain            # bytes of the others
    cdef int64_t copied          # bytes of those copied to the buffer of decompressed ones
    cdef list columns            # Column or None, by the enum above
    cdef Py_ssize_t capacity     # rows that fit into the arrays
    cdef Rows rows

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.has_view = True
        self.data = data
        memset(&self.filter, 0, sizeof(Filter))
        memset(&self.rows, 0, sizeof(Rows))
        if self.view.len > INT32_MAX:
            raise LimitExceeded(f"{self.view.len} bytes at once: cut them below 2 GiB")

    def __dealloc__(self):
        if self.has_view:
            PyBuffer_Release(&self.view)

    # ---- first pass: headers ---------------------------------------------------------------------

    cdef int measure(self) except -1:
        cdef BatchInfo info
        cdef Cursor cursor = self.input()
        cdef const uint8_t* entry = cursor.next
        while self.next_entry(&cursor, &info):
            if self.may_want(&info):
                if info.attributes & ATTRIBUTE_CODEC:
                    self.compressed += info.size
                else:
                    self.plain += info.size
                    self.must_hold(
                        &info, info.size - (BATCH_HEADER_SIZE if info.magic == 2 else 0), entry)
                    self.rows_max += info.record_count
            entry = cursor.next
        self.end = <size_t>self.view.len - cursor.left
        if self.is_strict and cursor.left:
            raise Truncated(f"batch: {cursor.left} bytes are no whole batch", self.end)
        return 0

    cdef Cursor input(self):
        cdef Cursor cursor
        cursor.next = <const uint8_t*>self.view.buf
        cursor.left = <size_t>self.view.len
        return cursor

    cdef bint next_entry(self, Cursor* cursor, BatchInfo* info) except -1:
        """Step over the next whole entry; False at the end, or before an incomplete one."""
        cdef const uint8_t* entry = cursor.next
        cdef BatchStatus status = entry_take(cursor, info)
        if status == BATCH_OK:
            return True
        if status == BATCH_EMPTY or status == BATCH_TRUNCATED:
            return False
        raise Corrupt(f"batch: {batch_status_text(status)}", self.position(entry))

    cdef Py_ssize_t position(self, const uint8_t* place):
        return place - <const uint8_t*>self.view.buf

    cdef bint may_want(self, BatchInfo* info) noexcept:
        """Return whether this entry may have requested records, by its header."""
        if info.attributes & ATTRIBUTE_CONTROL and info.magic == 2 and not self.is_strict:
            return False
        if not self.filter.is_set:
            return True
        if info.max_timestamp < self.filter.min_timestamp:
            return False
        if info.record_count < 0:    # a wrapper: its offset is that of its last message
            return info.base_offset >= self.filter.min_offset
        return (info.base_offset <= self.filter.max_offset
                and batch_last_offset(info) >= self.filter.min_offset)

    cdef int must_hold(self, BatchInfo* info, size_t size, const uint8_t* entry) except -1:
        """Check the number of records against the size of their bytes."""
        if info.record_count < 0 or <size_t>info.record_count > size // record_size_min:
            raise Corrupt(f"batch: {info.record_count} records in {size} bytes",
                          self.position(entry))
        return 0

    # ---- the arrays ------------------------------------------------------------------------------

    cdef int choose(self, names, dict reuse) except -1:
        cdef int first, last, i
        self.columns = [None] * COLUMNS
        for name in names:
            if name not in GROUPS:
                raise ValueError(f"no column {name!r}: there are {', '.join(GROUPS)}")
            first, last = GROUPS[name]
            for i in range(first, last + 1):
                self.columns[i] = column_reuse(reuse.get(NAMES[i]), KINDS[i], self.rows_max)
        if self.compressed:
            self.columns[DECOMPRESSED] = column_reuse(
                reuse.get("decompressed"), COLUMN_BYTE,
                self.plain + min(self.bytes_max, <int64_t>(self.compressed * COMPRESSION_RATIO)))
        self.capacity = self.rows_max
        self.point()
        return 0

    cdef void* memory(self, int i):
        return NULL if self.columns[i] is None else (<Column>self.columns[i]).data

    cdef SpanColumn spans(self, int start) except *:
        return SpanColumn(<int32_t*>self.memory(start), <int32_t*>self.memory(start + 1))

    cdef int point(self) except -1:
        """Set the pointers for writing rows to the present memory of the arrays."""
        cdef Rows* rows = &self.rows
        rows.offset = <int64_t*>self.memory(OFFSET)
        rows.timestamp = <int64_t*>self.memory(TIMESTAMP)
        rows.timestamp_type = <int8_t*>self.memory(TIMESTAMP_TYPE)
        rows.key = self.spans(KEY_START)
        rows.value = self.spans(VALUE_START)
        rows.header_end = <int32_t*>self.memory(HEADER_END)
        rows.header_key = self.spans(HEADER_KEY_START)
        rows.header_value = self.spans(HEADER_VALUE_START)
        if rows.header_end != NULL:
            # Reused memory may be larger in one column than in the next.
            rows.header_capacity = min([
                (<Column>self.columns[i]).capacity
                for i in range(HEADER_KEY_START, HEADER_VALUE_LENGTH + 1)])
        return 0

    cdef int have_room(self, Py_ssize_t more) except -1:
        """Grow the arrays so that `more` rows fit."""
        cdef Py_ssize_t wanted = self.rows.count + more
        if wanted <= self.capacity:
            return 0
        self.capacity = max(wanted, 2 * self.capacity)
        self.resize(OFFSET, HEADER_END, self.rows.count, self.capacity)
        return self.point()

    cdef int have_headers(self) except -1:
        """Double the capacity for headers."""
        self.resize(HEADER_KEY_START, HEADER_VALUE_LENGTH, self.rows.header_count,
                    max(1024, 2 * self.rows.header_capacity))
        return self.point()

    cdef int resize(self, int first, int last, Py_ssize_t count, Py_ssize_t capacity) except -1:
        cdef Column column
        for column in self.columns[first:last + 1]:
            if column is not None:
                column.count = count
                column.reserve(capacity)
        return 0

    # ---- second pass: records --------------------------------------------------------------------

    cdef int read(self) except -1:
        cdef BatchInfo info
        cdef Cursor cursor = self.input()
        cdef const uint8_t* entry
        self.rows.origin = cursor.next
        while self.position(cursor.next) < <Py_ssize_t>self.end:
            entry = cursor.next
            if not self.next_entry(&cursor, &info):
                raise Corrupt("batch: changed while it was read", self.position(entry))
            if info.magic == 2 and self.is_left_out(&info, entry):
                continue
            if not self.may_want(&info):
                continue
            if info.magic == 2:
                self.read_batch(&info, entry)
            else:
                self.read_message(entry, info.size)
        return 0

    cdef bint is_left_out(self, BatchInfo* info, const uint8_t* entry) except -1:
        """Return whether a version 2 batch is a control batch or aborted; check its CRC if so."""
        cdef bint is_control = info.attributes & ATTRIBUTE_CONTROL != 0
        if is_control and not self.is_strict and self.check_crc:
            self.must_fit(batch_check_crc(entry, info), entry)
        if self.aborted is not None and info.producer_id >= 0 and self.is_aborted(info, entry):
            if not is_control and self.check_crc:
                self.must_fit(batch_check_crc(entry, info), entry)
            return True
        return is_control and not self.is_strict

    cdef bint is_aborted(self, BatchInfo* info, const uint8_t* entry) except -1:
        """Follow the transactions as a consumer does (KIP-98); return whether to drop this batch.
        """
        cdef Py_ssize_t seen = <Py_ssize_t>self.aborted_seen
        if self.aborting is None:
            self.aborting = set()
        while seen < len(self.aborted) and (
                self.aborted[seen][0] <= batch_last_offset(info)):
            self.aborting.add(self.aborted[seen][1])
            seen += 1
        self.aborted_seen = <size_t>seen
        if not self.aborting or info.producer_id not in self.aborting:
            return False
        if info.attributes & ATTRIBUTE_CONTROL:
            if is_abort_marker(info, entry):
                self.aborting.discard(info.producer_id)
            return True
        return info.attributes & ATTRIBUTE_TRANSACTIONAL != 0

    cdef int read_batch(self, BatchInfo* info, const uint8_t* entry) except -1:
        cdef const uint8_t* payload = entry + BATCH_HEADER_SIZE
        cdef size_t size = info.size - BATCH_HEADER_SIZE
        cdef bint check_crc = self.check_crc
        cdef BatchStatus checked = BATCH_OK
        cdef RowStatus status = ROWS_OK
        cdef Py_ssize_t headers_before = self.rows.header_count
        if self.compressed or info.attributes & ATTRIBUTE_CODEC:
            if check_crc:
                self.must_fit(batch_check_crc(entry, info), entry)
            check_crc = False
            payload = self.decompress_payload(
                info.attributes & ATTRIBUTE_CODEC, payload, &size, entry)
        self.must_hold(info, size, entry)
        self.have_room(info.record_count)
        while True:
            with nogil:
                if check_crc:
                    checked = batch_check_crc(entry, info)
                if checked == BATCH_OK:
                    status = rows_of_batch(payload, size, info, &self.filter, &self.rows)
            self.must_fit(checked, entry)
            if status != ROWS_HEADERS_FULL:
                break
            check_crc = False
            self.rows.header_count = headers_before
            self.have_headers()
        if status == ROWS_LEFT_OVER:
            raise Corrupt(f"batch: bytes follow its {info.record_count} records",
                          self.position(entry))
        if status != ROWS_OK:
            raise Corrupt(f"batch: record {self.rows.bad_record} of {info.record_count} does not "
                          f"fit its lengths, in the batch", self.position(entry))
        if self.is_strict:
            self.check_offsets(info.record_count, info.base_offset, batch_last_offset(info), entry)
        return 0

    cdef int check_offsets(self, Py_ssize_t count, int64_t least, int64_t greatest,
                           const uint8_t* entry) except -1:
        """Check that the offsets of the last `count` rows ascend within [least, greatest]."""
        cdef Py_ssize_t row
        for row in range(self.rows.count - count, self.rows.count):
            if not least <= self.rows.offset[row] <= greatest:
                raise Corrupt(f"batch: offset {self.rows.offset[row]}, expected {least} to "
                              f"{greatest}, in the batch", self.position(entry))
            least = sum_wrapped(self.rows.offset[row], 1)
        return 0

    cdef int must_fit(self, BatchStatus status, const uint8_t* entry) except -1:
        if status != BATCH_OK:
            raise Corrupt(f"batch: {batch_status_text(status)}", self.position(entry))
        return 0

    # ---- message sets ----------------------------------------------------------------------------

    cdef int read_message(self, const uint8_t* entry, size_t size) except -1:
        cdef Message message
        cdef Cursor cursor
        cdef RowBasis basis
        cdef BatchStatus status
        cursor.next = entry
        cursor.left = size
        status = message_take(&cursor, &message)
        if self.check_crc and (status == BATCH_OK or status == BATCH_COUNT):
            self.must_fit(message_check_crc(&message), entry)
        self.must_fit(status, entry)
        if message.attributes & ATTRIBUTE_CODEC:
            return self.read_wrapper(&message, entry)
        if self.compressed:
            cursor.next = self.decompress_payload(0, entry, &size, entry)
            cursor.left = size
            self.must_fit(message_take(&cursor, &message), entry)
        self.have_room(1)
        basis.offset = message.offset
        basis.timestamp = message.timestamp
        basis.timestamp_type = timestamp_type_of(&message)
        row_put(&basis, &message.key, &message.value, &self.filter, &self.rows)
        return 0

    cdef int read_wrapper(self, Message* wrapper, const uint8_t* entry) except -1:
        """Read the message set in a compressed message (see legacy_message.pxd)."""
        cdef Message inner
        cdef Cursor cursor
        cdef RowBasis basis
        cdef size_t size = <size_t>max(wrapper.value.length, 0)
        cdef int64_t last, count = 0
        cdef const uint8_t* start = wrapper.value.start
        if size > 0:
            start = self.decompress_payload(
                wrapper.attributes & ATTRIBUTE_CODEC, start, &size, entry)
        last = self.check_inner(wrapper, start, size, entry, &count)
        self.have_room(count)
        cursor.next = start
        cursor.left = size
        basis.timestamp_type = timestamp_type_of(wrapper)
        basis.offset = sum_wrapped(wrapper.offset, -count)
        while cursor.left > 0:
            message_take(&cursor, &inner)
            basis.timestamp = inner.timestamp
            if basis.timestamp_type == 1:
                basis.timestamp = wrapper.timestamp
            if wrapper.magic == 0:
                basis.offset = inner.offset
            elif last > 0:
                basis.offset = sum_wrapped(wrapper.offset, sum_wrapped(inner.offset, -last))
            else:    # all zero, as some old clients write them: then count the messages
                basis.offset = sum_wrapped(basis.offset, 1)
            row_put(&basis, &inner.key, &inner.value, &self.filter, &self.rows)
        if self.is_strict:
            self.check_offsets(count, INT64_MIN, wrapper.offset, entry)
        return 0

    cdef int64_t check_inner(self, Message* wrapper, const uint8_t* start, size_t size,
                             const uint8_t* entry, int64_t* count) except? -1:
        """Check all inner messages before any becomes a row; return the last one's offset."""
        cdef Message inner
        cdef BatchStatus status
        cdef int64_t last = 0
        cdef Cursor cursor
        cursor.next = start
        cursor.left = size
        while cursor.left > 0:
            status = message_take(&cursor, &inner)
            if status == BATCH_OK and self.check_crc:
                status = message_check_crc(&inner)
            if status != BATCH_OK:
                raise Corrupt(f"message set: inner message {count[0]}: "
                              f"{batch_status_text(status)}, in the wrapper", self.position(entry))
            if inner.magic != wrapper.magic or inner.attributes & ATTRIBUTE_CODEC:
                raise Corrupt(f"message set: inner message {count[0]} of magic {inner.magic} with "
                              f"attributes {inner.attributes}, expected plain ones of magic "
                              f"{wrapper.magic} in the wrapper", self.position(entry))
            last = inner.offset
            count[0] += 1
        if count[0] == 0:
            raise Corrupt("message set: no inner messages, in the wrapper", self.position(entry))
        return last

    # ---- compressed batches ----------------------------------------------------------------------

    cdef const uint8_t* decompress_payload(self, int codec, const uint8_t* payload, size_t* size,
                                           const uint8_t* entry) except NULL:
        """Append the decompressed bytes to the buffer; return their start and set their size."""
        cdef Column decompressed = self.columns[DECOMPRESSED]
        cdef Py_ssize_t start = decompressed.count
        cdef Py_ssize_t count
        if codec == 0:
            count = <Py_ssize_t>size[0]
            self.copied += count
            if count > decompressed.capacity - start:
                self.have_bytes(decompressed, count, entry)
            memcpy(<uint8_t*>decompressed.data + start, payload, size[0])
        else:
            count = self.decompress_into(decompressed, codec, payload, size[0], entry)
        decompressed.count = start + count
        size[0] = <size_t>count
        self.rows.origin = <const uint8_t*>decompressed.data
        return self.rows.origin + start

    cdef Py_ssize_t decompress_into(self, Column decompressed, int codec, const uint8_t* payload,
                                    size_t size, const uint8_t* entry) except -1:
        cdef Py_ssize_t room, count
        source = PyMemoryView_FromMemory(<char*>payload, <Py_ssize_t>size, PyBUF_READ)
        while True:
            room = min(decompressed.capacity, self.allowed()) - decompressed.count
            output = PyMemoryView_FromMemory(
                <char*>decompressed.data + decompressed.count, room, PyBUF_WRITE)
            try:
                count = self.decompress(codec, source, output)
            except LimitExceeded:
                self.have_bytes(decompressed, room + 1, entry)
                continue
            except CodecError as error:
                raise type(error)(f"batch: {error.reason}", self.position(entry)) from None
            if not 0 <= count <= room:
                raise SystemError(f"{count} bytes decompressed into {room}")
            return count

    cdef int64_t allowed(self) noexcept:
        """Return the limit of the buffer's size: copied bytes do not count, the input has them."""
        return min(self.bytes_max + self.copied, INT32_MAX)

    cdef int have_bytes(self, Column decompressed, Py_ssize_t more, const uint8_t* entry) except -1:
        """Grow the buffer so that `more` bytes fit, up to the caller's limit."""
        if decompressed.count + more > self.allowed():
            raise LimitExceeded(
                f"batch: decompresses to more than the {self.bytes_max} bytes allowed",
                self.position(entry))
        decompressed.reserve(min(self.bytes_max + <int64_t>self.plain, INT32_MAX,
                             max(decompressed.count + more, 2 * decompressed.capacity)))
        return 0

    # ---- the result ------------------------------------------------------------------------------

    cdef tuple result(self):
        cdef int i
        cdef Column column
        arrays = {}
        for i in range(COLUMNS):
            column = self.columns[i]
            if column is None:
                continue
            if i <= HEADER_END:
                column.count = self.rows.count
            elif i < DECOMPRESSED:
                column.count = self.rows.header_count
            arrays[NAMES[i]] = column
        data = self.data if self.columns[DECOMPRESSED] is None else self.columns[DECOMPRESSED]
        return self.rows.count, self.end, data, arrays


cdef int8_t timestamp_type_of(Message* message) noexcept:
    if message.magic == 0:
        return -1
    return message.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0


cdef bint is_abort_marker(BatchInfo* info, const uint8_t* entry) noexcept:
    cdef RecordFields fields
    cdef Cursor records
    records.next = entry + BATCH_HEADER_SIZE
    records.left = info.size - BATCH_HEADER_SIZE
    return (info.record_count > 0
            and record_take(&records, &fields)
            and fields.key.length >= CONTROL_KEY_SIZE
            and load_int16(fields.key.start + 2) == ABORT_MARKER)
