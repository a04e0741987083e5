"""An array of numbers that Python reads through the buffer protocol.

numpy, pyarrow and memoryview use it without a copy, and none of them is needed to create one. The
memory begins on a cache line, so that Arrow's kernels can load it in vectors. While a view exists
the memory is neither moved nor reused: `column_reuse` reuses the memory of a column without views,
because page faults of fresh memory cost more than filling it.

`gather` converts spans to an Arrow binary array (Arrow columnar format, "Variable-size Binary
Layout"): int32 offsets, one more than there are values; the values' bytes; a bit per value, lowest
first, 0 for null, absent when none is null. Arrow's binary type requires contiguous bytes, so
values are copied here, and nowhere else.
"""

from cpython.buffer cimport (
    PyBUF_FORMAT, PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer,
)
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from cython cimport final

from broker.model.errors import LimitExceeded


cdef extern from "stdlib.h" nogil:
    int posix_memalign(void** memory, size_t alignment, size_t size)

cdef enum:
    CACHE_LINE = 64
    STRIDE = 16          # bytes that are copied at once, if source and target have so many
    NO_TIMESTAMP = -1    # of a record, ms

cdef Py_ssize_t[5] ITEM_SIZE = [1, 1, 4, 8, 8]
cdef const char* FORMATS = b"B\0b\0i\0q\0Q"    # of each kind, a string of two bytes


@final
cdef class Column:
    """A one-dimensional, contiguous, read-only array; `memoryview(column)` or numpy reads it."""

    def __cinit__(self):
        self.item_size = ITEM_SIZE[<int>COLUMN_BYTE]

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.count

    def __buffer__(self, int flags):
        """Return a view, as in Python 3.12 (PEP 688)."""
        return memoryview(self)

    def __getbuffer__(self, Py_buffer* view, int flags):
        if flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
            raise BufferError("a Column is read-only")
        self.shape[0] = self.count
        self.strides[0] = self.item_size
        view.obj = self
        view.buf = self.data if self.data != NULL else <void*>FORMATS  # Arrow aborts for NULL
        view.len = self.count * self.item_size
        view.itemsize = self.item_size
        view.readonly = 1
        view.ndim = 1
        view.format = <char*>FORMATS + 2 * self.kind if flags & PyBUF_FORMAT else NULL
        view.shape = self.shape
        view.strides = self.strides
        view.suboffsets = NULL
        view.internal = NULL
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1

    cdef int reserve(self, Py_ssize_t capacity) except -1:
        """Allocate memory for `capacity` items, keeping the values. Requires that no view exists.
        """
        cdef void* memory = NULL
        if capacity <= self.capacity and self.data != NULL:
            return 0
        if self.exports:
            raise BufferError("a Column with views cannot grow")
        if posix_memalign(&memory, CACHE_LINE, <size_t>(max(capacity, 1) * self.item_size)):
            raise MemoryError
        if self.count:
            memcpy(memory, self.data, <size_t>(self.count * self.item_size))
        free(self.data)
        self.data = memory
        self.capacity = capacity
        return 0

    cdef int grow(self, Py_ssize_t count) except -1:
        """Allocate memory for `count` items, at least doubling, so that growing by one is cheap."""
        if count > self.capacity:
            self.reserve(max(count, 2 * self.capacity))
        return 0


cdef Column column_new(int kind, Py_ssize_t capacity):
    cdef Column column = Column.__new__(Column)
    column.kind = kind
    column.item_size = ITEM_SIZE[kind]
    column.reserve(capacity)
    return column


cdef Column column_reuse(Column old, int kind, Py_ssize_t capacity):
    """Return an empty column, with the memory of the old one if that has no views."""
    cdef Column column
    if old is None or old.exports or old.kind != kind or old.capacity < capacity:
        return column_new(kind, capacity)
    column = Column.__new__(Column)
    column.kind = kind
    column.item_size = old.item_size
    column.data = old.data
    column.capacity = old.capacity
    old.data = NULL
    old.count = old.capacity = 0
    return column


# ---- Arrow's arrays ------------------------------------------------------------------------------

def gather(data, Column start not None, Column length not None, dict reuse=None):
    """Return (offsets, values, validity or None, null count) of the values that spans point to.

    Raises:
        ValueError: a span lies outside of the data, or the columns are not a pair of int32.
        LimitExceeded: the values have 2 GiB or more in all.
    """
    cdef Py_buffer view
    cdef Column offsets, values, validity
    cdef int64_t size
    cdef Py_ssize_t nulls = 0
    cdef Py_ssize_t rows = start.count
    if start.kind != COLUMN_INT32 or length.kind != COLUMN_INT32 or length.count != rows:
        raise ValueError("spans are two int32 columns of the same length")
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        offsets = column_reuse(reused(reuse, "offsets"), COLUMN_INT32, rows + 1)
        size = sum_lengths(
            <int32_t*>start.data, <int32_t*>length.data, <int32_t*>offsets.data, rows, view.len,
            &nulls)
        if size < 0:
            raise ValueError(f"a span lies outside of {view.len} bytes of data")
        if size > INT32_MAX:
            raise LimitExceeded(f"{size} bytes of values in one array: cut it below 2 GiB")
        offsets.count = rows + 1
        values = column_reuse(reused(reuse, "values"), COLUMN_BYTE, <Py_ssize_t>size + STRIDE)
        values.count = <Py_ssize_t>size
        with nogil:
            copy_values(<const uint8_t*>view.buf, view.len, <int32_t*>start.data,
                        <int32_t*>length.data, <uint8_t*>values.data, rows)
        validity = None
        if nulls:
            validity = new_validity(reuse, rows)
            mark_valid(<int32_t*>length.data, <uint8_t*>validity.data, rows)
        return offsets, values, validity, nulls
    finally:
        PyBuffer_Release(&view)


def microseconds(Column timestamp not None, dict reuse=None):
    """Return (microseconds, validity or None, null count) of a column of milliseconds.

    Spark reads Arrow timestamps in microseconds; -1 ms means no timestamp in Kafka: null.
    """
    cdef Column scaled = column_reuse(reused(reuse, "values"), COLUMN_INT64, timestamp.count)
    cdef Column validity = None
    cdef int64_t* source = <int64_t*>timestamp.data
    cdef int64_t* target = <int64_t*>scaled.data
    cdef Py_ssize_t i, nulls = 0
    cdef Py_ssize_t rows = timestamp.count
    if timestamp.kind != COLUMN_INT64:
        raise ValueError("timestamps are an int64 column")
    for i in range(rows):
        target[i] = <int64_t>(<unsigned long long>source[i] * 1000)
        nulls += source[i] == NO_TIMESTAMP
    scaled.count = rows
    if nulls:
        validity = new_validity(reuse, rows)
        mark_timed(source, <uint8_t*>validity.data, rows)
    return scaled, validity, nulls


cdef object reused(dict reuse, name):
    return None if reuse is None else reuse.get(name)


cdef int64_t sum_lengths(const int32_t* start, const int32_t* length, int32_t* offsets,
                         Py_ssize_t rows, Py_ssize_t data_size, Py_ssize_t* nulls) noexcept nogil:
    """Write the offsets; return the sum, or -1 when a span is not within the data."""
    cdef int64_t sum = 0
    cdef Py_ssize_t i, null_count = 0
    offsets[0] = 0
    for i in range(rows):
        if length[i] >= 0:
            if start[i] < 0 or <int64_t>start[i] + length[i] > data_size:
                return -1
            sum += length[i]
        else:
            null_count += 1
        offsets[i + 1] = <int32_t>sum    # checked at the end: the sum itself cannot overflow
    nulls[0] = null_count
    return sum


cdef void copy_values(const uint8_t* data, Py_ssize_t data_size, const int32_t* start,
                      const int32_t* length, uint8_t* target, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t i, at
    cdef const uint8_t* source
    cdef Py_ssize_t last_stride = data_size - STRIDE
    for i in range(rows):
        if length[i] <= 0:
            continue
        source = data + start[i]
        if <Py_ssize_t>start[i] + length[i] > last_stride or length[i] > 512:
            memcpy(target, source, <size_t>length[i])
        else:
            # Whole strides: the target has space for one more than its values need, and the next
            # value overwrites excess bytes.
            at = 0
            while at < length[i]:
                memcpy(target + at, source + at, STRIDE)
                at += STRIDE
        target += length[i]


cdef Column new_validity(dict reuse, Py_ssize_t rows):
    """Return bits of 0 for as many rows, in whole bytes."""
    cdef Column validity = column_reuse(reused(reuse, "validity"), COLUMN_BYTE, (rows + 7) // 8)
    validity.count = (rows + 7) // 8
    memset(validity.data, 0, <size_t>validity.count)
    return validity


cdef void mark_valid(const int32_t* length, uint8_t* bitmap, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(rows):
        if length[i] >= 0:
            bitmap[i >> 3] |= <uint8_t>(1 << (i & 7))


cdef void mark_timed(const int64_t* timestamp, uint8_t* bitmap, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(rows):
        if timestamp[i] != NO_TIMESTAMP:
            bitmap[i >> 3] |= <uint8_t>(1 << (i & 7))
