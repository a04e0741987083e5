"""Records of a compressed batch: unfolded and walked in the loop before the batch is appended.

A producer's batch that cannot be unfolded, or whose records are not whole, would stop every
consumer at its offset. Here it is unfolded into memory of this module when it is short; what is
longer, and what is wrong, is left to Python, which unfolds beside the loop and has the error
(core/recompression.py).
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
from broker._native.records.record_walk cimport records_are_sound

from broker.model import limits

cdef enum:
    CODEC_GZIP = 1
    GZIP_SIZE_SIZE = 4           # the content's size is the last field of a gzip member
    FOLDED_RATIO_MIN = 2         # a batch that has more than room / 2 bytes hardly fits into it

cdef int64_t UNFOLDED_MAX = limits.PRODUCE_DECOMPRESSED_BYTES_MAX
cdef int64_t GZIP_WEIGHT = limits.PRODUCE_DECOMPRESSED_GZIP_WEIGHT
cdef uint8_t* unfolded = NULL    # UNFOLDED_MAX bytes, made for the first compressed batch


cdef bint folded_are_sound(object unfold, const uint8_t* batch, const BatchInfo* info,
                           bint need_keys, int64_t* left) noexcept:
    """Whether a compressed batch has sound records, which all have keys where they need them.

    `left` is what the caller may still spend, in bytes unfolded, at most UNFOLDED_MAX; a byte of
    gzip weighs more. False, too, when that is not enough.
    """
    global unfolded
    cdef int codec = info.attributes & ATTRIBUTE_CODEC
    cdef int64_t weight = GZIP_WEIGHT if codec == CODEC_GZIP else 1
    cdef int64_t room = left[0] // weight
    cdef int64_t folded_size = <int64_t>info.size - BATCH_HEADER_SIZE
    cdef Py_ssize_t size
    cdef Cursor records
    if folded_size > room // FOLDED_RATIO_MIN or is_longer(batch, info, codec, room):
        return False
    if unfolded == NULL:
        unfolded = <uint8_t*>malloc(<size_t>UNFOLDED_MAX)
        if unfolded == NULL:
            return False
    left[0] -= room * weight     # should it fail, so much may have been done
    try:
        size = unfold(
            codec,
            PyMemoryView_FromMemory(
                <char*>batch + BATCH_HEADER_SIZE, <Py_ssize_t>folded_size, PyBUF_READ),
            PyMemoryView_FromMemory(<char*>unfolded, <Py_ssize_t>room, PyBUF_WRITE))
    except Exception:
        return False             # Python finds the same, and says so
    if not 0 <= size <= room:
        return False
    left[0] += (room - size) * weight
    records.next = unfolded
    records.left = <size_t>size
    if need_keys:
        return all_have_keys(records, info.record_count)
    return records_are_sound(records, info.record_count)


cdef bint is_longer(
        const uint8_t* batch, const BatchInfo* info, int codec, int64_t room) noexcept nogil:
    # Whether gzip itself says so: it would be unfolded for nothing.
    cdef const uint8_t* end = batch + info.size
    if codec != CODEC_GZIP or info.size < BATCH_HEADER_SIZE + GZIP_SIZE_SIZE:
        return False
    return (<uint32_t>end[-4] | <uint32_t>end[-3] << 8 | <uint32_t>end[-2] << 16
            | <uint32_t>end[-1] << 24) > room
