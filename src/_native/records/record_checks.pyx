"""Checks the records of a producer's batch (version 2, record_batch.pyx) before it is appended.

A batch that cannot be decompressed, or whose records are invalid, would stop every consumer at its
offset. A short batch is decompressed here, on the loop, into memory of this module; a longer or an
invalid one is left to Python, which decompresses in a thread and returns the error
(core/logs/recompression.py).

A compacted topic refuses records without a key (KIP-467). All fields of a record are read to find
them, so records that pass are also valid.
"""

from cpython.buffer cimport (
    PyBUF_READ, PyBUF_SIMPLE, PyBUF_WRITE, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    BATCH_HEADER_SIZE,
    BatchInfo,
)
from broker._native.records.record_walk cimport RecordFields, record_take_at, records_are_valid

from broker.model import limits
from broker.model.errors import Corrupt

cdef enum:
    CODEC_GZIP = 1
    GZIP_SIZE_SIZE = 4           # the content's size is the last field of a gzip member
    COMPRESSION_RATIO_MIN = 2    # a batch of more than room / 2 bytes would hardly fit

cdef int64_t DECOMPRESSED_MAX = limits.PRODUCE_DECOMPRESSED_BYTES_MAX
cdef int64_t GZIP_WEIGHT = limits.PRODUCE_DECOMPRESSED_GZIP_WEIGHT
cdef uint8_t* decompressed = NULL  # DECOMPRESSED_MAX bytes, allocated for the first such batch


cdef bint compressed_records_are_valid(
        object decompress, const uint8_t* batch, const BatchInfo* info, bint need_keys,
        int64_t* left) noexcept:
    """Return whether a compressed batch has valid records, with keys if they need them.

    `left` is the remaining budget in decompressed bytes, at most DECOMPRESSED_MAX; a byte of gzip
    counts as GZIP_WEIGHT. False also when the budget is not enough.
    """
    global decompressed
    cdef int codec = info.attributes & ATTRIBUTE_CODEC
    cdef int64_t weight = GZIP_WEIGHT if codec == CODEC_GZIP else 1
    cdef int64_t room = left[0] // weight
    cdef int64_t compressed_size = <int64_t>info.size - BATCH_HEADER_SIZE
    cdef Py_ssize_t size
    cdef Cursor records
    if compressed_size > room // COMPRESSION_RATIO_MIN or is_longer(batch, info, codec, room):
        return False
    if decompressed == NULL:
        decompressed = <uint8_t*>malloc(<size_t>DECOMPRESSED_MAX)
        if decompressed == NULL:
            return False
    left[0] -= room * weight     # if it fails, so much may have been decompressed
    try:
        size = decompress(
            codec,
            PyMemoryView_FromMemory(
                <char*>batch + BATCH_HEADER_SIZE, <Py_ssize_t>compressed_size, PyBUF_READ),
            PyMemoryView_FromMemory(<char*>decompressed, <Py_ssize_t>room, PyBUF_WRITE))
    except Exception:
        return False             # the Python handler finds the same error and returns it
    if not 0 <= size <= room:
        return False
    left[0] += (room - size) * weight
    records.next = decompressed
    records.left = <size_t>size
    if need_keys:
        return all_have_keys(records, info.record_count)
    return records_are_valid(records, info.record_count)


cdef bint is_longer(
        const uint8_t* batch, const BatchInfo* info, int codec, int64_t room) noexcept nogil:
    # Return whether gzip's size field is above `room`: then decompression would be in vain.
    cdef const uint8_t* end = batch + info.size
    if codec != CODEC_GZIP or info.size < BATCH_HEADER_SIZE + GZIP_SIZE_SIZE:
        return False
    return (<uint32_t>end[-4] | <uint32_t>end[-3] << 8 | <uint32_t>end[-2] << 16
            | <uint32_t>end[-1] << 24) > room


cdef int32_t find_keyless(Cursor* records, int32_t count, int32_t* places,
                          int32_t places_max) noexcept nogil:
    # Returns how many were found; -1 when the records are invalid.
    cdef RecordFields fields
    cdef int32_t found = 0, i
    for i in range(count):
        if not record_take_at(records, i, &fields):
            return -1
        if fields.key.length < 0 and found < places_max:
            places[found] = i
            found += 1
    return found if records.left == 0 else -1


cdef bint all_have_keys(Cursor records, int32_t count) noexcept nogil:
    """Return whether these are exactly `count` valid records that have keys."""
    cdef int32_t place
    return find_keyless(&records, count, &place, 1) == 0


def keyless(data, int32_t count, int32_t places_max):
    """Return the indexes in the batch, from 0, of the first `places_max` records without a key.

    Raises:
        Corrupt: the bytes are not exactly `count` records with the offsets from 0 on.
    """
    cdef Py_buffer view
    cdef Cursor cursor
    cdef int32_t* places
    cdef int32_t found, i
    if places_max < 1:
        raise ValueError(f"places_max {places_max}, expected 1 or more")
    places = <int32_t*>malloc(<size_t>places_max * sizeof(int32_t))
    if places == NULL:
        raise MemoryError
    try:
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        cursor.next = <const uint8_t*>view.buf
        cursor.left = <size_t>view.len
        with nogil:
            found = find_keyless(&cursor, count, places, places_max)
        PyBuffer_Release(&view)
        if found < 0:
            raise Corrupt(f"batch: not {count} whole records")
        return [places[i] for i in range(found)]
    finally:
        free(places)
