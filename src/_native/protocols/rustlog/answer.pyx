"""RustLog's answers to Fetch, written from batches without a Python object per record.

    binary   02 | uint32 count | count x (uint32 length | bytes) | uint64 next offset
    JSON     {"Fetch":{"records":[{"offset":n,"payload":[..]},..],"next_offset":n}}

The binary form has no offsets: its clients count from the requested one, so an answer ends where
offsets are missing. A null value becomes an empty one.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from broker._native.kernel.big_endian cimport store_uint32, store_uint64
from broker._native.kernel.decimal cimport store_unsigned
from broker._native.kernel.growing cimport make_capacity
from broker._native.protocols.rustlog.byte_arrays cimport BYTE_SIZE_MAX, put_byte_array
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    BATCH_HEADER_SIZE,
    BATCH_OK,
    batch_check_crc,
    batch_header,
    sum_wrapped,
)
from broker._native.records.record_walk cimport RecordFields, record_take
from broker._native.wire.frame cimport FRAME_HEAD_SIZE

from broker.model import limits

cdef enum:
    KIND_FETCH = 0x02
    HEAD_SIZE = 1 + 4
    NEXT_OFFSET_SIZE = 8
    RECORD_HEAD_SIZE = 4
    # The header of a stored record in the original, which max_bytes of its clients includes.
    STORED_HEAD_SIZE = 12
    # Upper bounds of a JSON record without its bytes, and of the text after the records.
    JSON_RECORD_SIZE = 64
    JSON_TAIL_SIZE = 64

cdef size_t FRAME_BYTES_MAX = limits.RUSTLOG_FRAME_BYTES_MAX


cdef bint reserve(FetchAnswer* answer, size_t more) noexcept nogil:
    if make_capacity(<void**>&answer.data, &answer.capacity, answer.size + more):
        return True
    answer.status = ANSWER_NO_MEMORY
    return False


cdef void put_text(FetchAnswer* answer, const char* text, size_t size) noexcept nogil:
    memcpy(answer.data + answer.size, text, size)
    answer.size += size


cdef void answer_begin(
        FetchAnswer* answer, bint is_json, int64_t offset, uint64_t bytes_max) noexcept nogil:
    """Begin without records; `offset` is the first one that is wanted."""
    answer.is_json = is_json
    answer.status = ANSWER_OPEN
    answer.next_offset = offset
    answer.bytes_max = bytes_max
    answer.bytes_counted = answer.payload_bytes = answer.large_size = 0
    answer.count = 0
    answer.size = 0
    if not reserve(answer, FRAME_HEAD_SIZE + JSON_RECORD_SIZE + JSON_TAIL_SIZE):
        return
    answer.size = FRAME_HEAD_SIZE
    if is_json:
        put_text(answer, b'{"Fetch":{"records":[', 21)
    else:
        answer.data[FRAME_HEAD_SIZE] = KIND_FETCH
        answer.size += HEAD_SIZE


cdef bint put_binary(FetchAnswer* answer, const uint8_t* value, size_t size) noexcept nogil:
    if answer.size - FRAME_HEAD_SIZE + RECORD_HEAD_SIZE + size + NEXT_OFFSET_SIZE > FRAME_BYTES_MAX:
        return False
    if not reserve(answer, RECORD_HEAD_SIZE + size + JSON_TAIL_SIZE):
        return False
    store_uint32(answer.data + answer.size, <uint32_t>size)
    answer.size += RECORD_HEAD_SIZE
    if size > 0:
        memcpy(answer.data + answer.size, value, size)
        answer.size += size
    return True


cdef bint put_json(
        FetchAnswer* answer, int64_t offset, const uint8_t* value, size_t size) noexcept nogil:
    cdef size_t before = answer.size
    # A byte takes at least two bytes of text: nothing is allocated for a value that cannot fit.
    if before + 2 * size > FRAME_BYTES_MAX:
        return False
    if not reserve(answer, JSON_RECORD_SIZE + BYTE_SIZE_MAX * size + JSON_TAIL_SIZE):
        return False
    if answer.count > 0:
        put_text(answer, b",", 1)
    put_text(answer, b'{"offset":', 10)
    answer.size = <size_t>(
        store_unsigned(answer.data + answer.size, <uint64_t>offset) - answer.data)
    put_text(answer, b',"payload":', 11)
    answer.size = <size_t>(
        put_byte_array(answer.data + answer.size, value, size) - answer.data)
    put_text(answer, b"}", 1)
    if answer.size - FRAME_HEAD_SIZE + JSON_TAIL_SIZE > FRAME_BYTES_MAX:
        answer.size = before
        return False
    return True


cdef void put_record(
        FetchAnswer* answer, int64_t offset, const uint8_t* value, size_t size) noexcept nogil:
    cdef uint64_t counted = answer.bytes_counted + size
    cdef bint is_put
    if not answer.is_json:
        counted += STORED_HEAD_SIZE
        if offset != answer.next_offset:
            answer.status = ANSWER_GAP
            if answer.count == 0:
                answer.next_offset = offset
            return
    if answer.count > 0 and counted > answer.bytes_max:
        answer.status = ANSWER_FULL
        return
    if answer.is_json:
        is_put = put_json(answer, offset, value, size)
    else:
        is_put = put_binary(answer, value, size)
    if not is_put:
        if answer.status == ANSWER_OPEN:
            answer.status = ANSWER_FULL if answer.count > 0 else ANSWER_TOO_LARGE
            answer.next_offset = offset if answer.count == 0 else answer.next_offset
            answer.large_size = size
        return
    answer.count += 1
    answer.bytes_counted = counted
    answer.payload_bytes += size
    answer.next_offset = sum_wrapped(offset, 1)


cdef void answer_add(FetchAnswer* answer, const BatchInfo* info, Cursor records) noexcept nogil:
    """Add the wanted records of a batch, decompressed, while the answer is open."""
    cdef RecordFields fields
    cdef int64_t offset
    cdef size_t size
    cdef int32_t _i
    for _i in range(info.record_count):
        if answer.status != ANSWER_OPEN:
            return
        if not record_take(&records, &fields):
            answer.status = ANSWER_CORRUPT
            return
        offset = sum_wrapped(info.base_offset, fields.offset_delta)
        if offset < answer.next_offset:
            continue
        size = <size_t>fields.value.length if fields.value.length > 0 else 0
        put_record(answer, offset, fields.value.start, size)


cdef void answer_finish(FetchAnswer* answer, uint64_t next_offset) noexcept nogil:
    """Write the end of the answer, and its length."""
    if answer.is_json:
        put_text(answer, b'],"next_offset":', 16)
        answer.size = <size_t>(store_unsigned(answer.data + answer.size, next_offset) - answer.data)
        put_text(answer, b"}}", 2)
    else:
        store_uint32(answer.data + FRAME_HEAD_SIZE + 1, answer.count)
        store_uint64(answer.data + answer.size, next_offset)
        answer.size += NEXT_OFFSET_SIZE
    store_uint32(answer.data, <uint32_t>(answer.size - FRAME_HEAD_SIZE))


STATUS_NAMES = {
    ANSWER_OPEN: "open",
    ANSWER_FULL: "full",
    ANSWER_GAP: "gap",
    ANSWER_TOO_LARGE: "too large",
    ANSWER_CORRUPT: "corrupt",
    ANSWER_NO_MEMORY: "no memory",
}


@cython.final
cdef class FetchAnswerWriter:
    """An answer to Fetch, filled batch by batch."""

    cdef FetchAnswer answer

    def __cinit__(self, int64_t offset, uint64_t bytes_max, *, bint is_json):
        memset(&self.answer, 0, sizeof(FetchAnswer))
        answer_begin(&self.answer, is_json, offset, bytes_max)
        if self.answer.status != ANSWER_OPEN:
            raise MemoryError

    def __dealloc__(self):
        free(self.answer.data)

    @property
    def status(self):
        """The result of adding: "open" while more records may be added."""
        return STATUS_NAMES[self.answer.status]

    @property
    def count(self):
        """How many records it has."""
        return self.answer.count

    @property
    def payload_bytes(self):
        """Bytes of those records."""
        return self.answer.payload_bytes

    @property
    def next_offset(self):
        """The offset after the last record; of the first record if the wanted one is missing."""
        return self.answer.next_offset

    @property
    def large_size(self):
        """Bytes of the value that does not fit, when the status is "too large"."""
        return self.answer.large_size

    def add(self, batch, decompressed=None):
        """Add the records of one batch; a compressed one needs its `decompressed` records, too.

        An invalid batch makes the status "corrupt".
        """
        cdef Py_buffer view, records_view
        cdef BatchInfo info
        cdef Cursor records
        PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
        try:
            records.next = <const uint8_t*>view.buf
            records.left = <size_t>view.len
            if batch_header(&records, &info) != BATCH_OK or (
                    batch_check_crc(<const uint8_t*>view.buf, &info) != BATCH_OK):
                self.answer.status = ANSWER_CORRUPT
                return
            if info.attributes & ATTRIBUTE_CODEC == 0:
                records.next = <const uint8_t*>view.buf + BATCH_HEADER_SIZE
                records.left = info.size - BATCH_HEADER_SIZE
                answer_add(&self.answer, &info, records)
                return
            PyObject_GetBuffer(decompressed, &records_view, PyBUF_SIMPLE)
            records.next = <const uint8_t*>records_view.buf
            records.left = <size_t>records_view.len
            answer_add(&self.answer, &info, records)
            PyBuffer_Release(&records_view)
        finally:
            PyBuffer_Release(&view)

    def finish(self, uint64_t next_offset):
        """Return the answer without its length; nothing may be added afterwards."""
        answer_finish(&self.answer, next_offset)
        return PyBytes_FromStringAndSize(
            <const char*>self.answer.data + FRAME_HEAD_SIZE,
            <Py_ssize_t>(self.answer.size - FRAME_HEAD_SIZE))
