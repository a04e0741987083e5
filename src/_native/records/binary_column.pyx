"""Converts spans to an Arrow binary array: offsets, contiguous bytes, a validity bitmap.

Layout (Arrow columnar format, "Variable-size Binary Layout"): int32 offsets, one more than there
are values; the values' bytes; a bit per value, lowest first, 0 for null, absent when none is null.
Arrow's binary type requires contiguous bytes, so values are copied here, and nowhere else.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from broker._native.records.column cimport (
    COLUMN_BYTE, COLUMN_INT32, COLUMN_INT64, Column, column_reuse,
)

from broker.model.errors import LimitExceeded

cdef enum:
    STRIDE = 16    # bytes copied at once, if source and target have so many
    NO_TIMESTAMP = -1    # of a record, ms


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
            validity = column_reuse(reused(reuse, "validity"), COLUMN_BYTE, (rows + 7) // 8)
            validity.count = (rows + 7) // 8
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
        validity = column_reuse(reused(reuse, "validity"), COLUMN_BYTE, (rows + 7) // 8)
        validity.count = (rows + 7) // 8
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


cdef void mark_valid(const int32_t* length, uint8_t* bitmap, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t i
    memset(bitmap, 0, <size_t>((rows + 7) // 8))
    for i in range(rows):
        if length[i] >= 0:
            bitmap[i >> 3] |= <uint8_t>(1 << (i & 7))


cdef void mark_timed(const int64_t* timestamp, uint8_t* bitmap, Py_ssize_t rows) noexcept nogil:
    cdef Py_ssize_t i
    memset(bitmap, 0, <size_t>((rows + 7) // 8))
    for i in range(rows):
        if timestamp[i] != NO_TIMESTAMP:
            bitmap[i >> 3] |= <uint8_t>(1 << (i & 7))
