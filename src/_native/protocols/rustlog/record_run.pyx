"""Runs of records as in RustLog's binary form, one after the other: uint32 length | bytes.

They become batches of records without keys, small enough that one can be built within a turn of the
loop. A larger record gets a batch of its own, as large as its topic allows.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memset

from broker._native.kernel.cursor cimport READ_DONE, cursor_take, cursor_uint32
from broker._native.records.plain_batch cimport (
    plain_add,
    plain_begin,
    plain_finish,
    plain_record_size,
)
from broker._native.records.record_batch cimport BATCH_HEADER_SIZE

from broker.model import limits
from broker.model.errors import LimitExceeded

cdef enum:
    LENGTH_SIZE = 4

cdef size_t RUN_BATCH_BYTES_MAX = limits.MESSAGE_BYTES_MAX
cdef uint32_t RUN_RECORDS_PER_BATCH = limits.RUN_RECORDS_PER_BATCH


cdef RunStatus run_check(Cursor run, uint32_t count) noexcept nogil:
    """Check that a run has `count` records; bytes after them do not matter."""
    cdef uint32_t size = 0
    cdef uint32_t _i
    for _i in range(count):
        if cursor_uint32(&run, &size) != READ_DONE:
            return RUN_NO_LENGTH
        if cursor_take(&run, size) == NULL:
            return RUN_NO_RECORD
    return RUN_DONE


cdef RunStatus run_add(Cursor* run, uint32_t* left, PlainBatch* batch, size_t size_max,
                       uint32_t records_max) noexcept nogil:
    """Add records to a batch until `left` is 0 or the batch is full."""
    cdef Cursor rest
    cdef uint32_t size = 0
    while left[0] > 0:
        if <uint32_t>batch.info.record_count == records_max:
            return RUN_BATCH_FULL
        rest = run[0]
        if cursor_uint32(&rest, &size) != READ_DONE:
            return RUN_NO_LENGTH
        if cursor_take(&rest, size) == NULL:
            return RUN_NO_RECORD
        if size > INT32_MAX or (
                plain_record_size(batch, -1, <int32_t>size) > size_max - batch.size):
            return RUN_BATCH_FULL
        if not plain_add(batch, NULL, -1, rest.next - size, <int32_t>size):
            return RUN_BATCH_FULL
        run[0] = rest
        left[0] -= 1
    return RUN_DONE


def check_run(bytes data not None, size_t position, uint32_t count):
    """Return None if `count` records are at a position, else what is cut short.

    That is "length" or "record".
    """
    cdef RunStatus status = run_check(at(data, position), count)
    return {RUN_DONE: None, RUN_NO_LENGTH: "length", RUN_NO_RECORD: "record"}[status]


cdef Cursor at(bytes data, size_t position) except *:
    cdef Cursor cursor
    cdef size_t size = <size_t>PyBytes_GET_SIZE(data)
    if position > size:
        raise ValueError(f"position {position} of {size} bytes")
    cursor.next = <const uint8_t*>PyBytes_AS_STRING(data) + position
    cursor.left = size - position
    return cursor


@cython.final
cdef class RunBatches:
    """The batches of a checked run, built one at a time."""

    cdef bytes data
    cdef Cursor run
    cdef uint32_t left
    cdef readonly size_t payload_bytes    # of the records so far
    cdef size_t size_max
    cdef int64_t timestamp_ms
    cdef PlainBatch batch

    def __cinit__(self, bytes data not None, size_t position, uint32_t count, *,
                  size_t batch_bytes_max, int64_t timestamp_ms):
        memset(&self.batch, 0, sizeof(PlainBatch))
        self.data = data
        self.run = at(data, position)
        self.left = count
        self.size_max = batch_bytes_max
        self.timestamp_ms = timestamp_ms

    def __dealloc__(self):
        free(self.batch.data)

    def next(self):
        """Return the next batch (bytes), or None after the last.

        Raises:
            LimitExceeded: a record is larger than the largest batch.
        """
        cdef size_t run_left
        if self.left == 0:
            return None
        if self.size_max < BATCH_HEADER_SIZE or not plain_begin(
                &self.batch, self.timestamp_ms, min(self.run.left, self.size_max)):
            raise MemoryError
        run_left = self.run.left
        run_add(&self.run, &self.left, &self.batch, min(self.size_max, RUN_BATCH_BYTES_MAX),
                RUN_RECORDS_PER_BATCH)
        if self.batch.info.record_count == 0:
            run_add(&self.run, &self.left, &self.batch, self.size_max, 1)
        self.payload_bytes += (
            run_left - self.run.left - LENGTH_SIZE * <size_t>self.batch.info.record_count)
        if self.batch.info.record_count == 0:
            raise LimitExceeded(
                f"a record does not fit into max.message.bytes, which is {self.size_max}")
        plain_finish(&self.batch)
        return PyBytes_FromStringAndSize(
            <const char*>self.batch.data, <Py_ssize_t>self.batch.size)
