"""Decompresses and validates the records of a producer's batch before it is appended.

A batch that cannot be decompressed, or whose records are invalid, would stop every consumer at its
offset. A short batch is decompressed here, on the loop, into memory of this module; a longer or an
invalid one is left to Python, which decompresses in a thread and returns the error
(core/logs/recompression.py).
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport malloc

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.keyless cimport all_have_keys
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    BATCH_HEADER_SIZE,
    BatchInfo,
)
from broker._native.records.record_walk cimport records_are_valid

from broker.model import limits

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
