"""Stores the keys, values and headers of a version 2 batch's records (layout: record_batch.pyx).

Header only, like record_walk.pxd, which reads them.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from broker._native.kernel.varint cimport store_varint, varint_size

cdef enum:
    NULL_SIZE = 1    # -1 as a varint


cdef inline void copy_bytes(uint8_t* into, const uint8_t* data, int64_t size) noexcept nogil:
    """Copy bytes; up to 16, as most keys have, without a call, by two loads that may overlap."""
    cdef uint64_t[2] longs
    cdef uint32_t[2] ints
    if size > 16:
        memcpy(into, data, <size_t>size)
    elif size >= 8:
        memcpy(&longs[0], data, 8)
        memcpy(&longs[1], data + size - 8, 8)
        memcpy(into, &longs[0], 8)
        memcpy(into + size - 8, &longs[1], 8)
    elif size >= 4:
        memcpy(&ints[0], data, 4)
        memcpy(&ints[1], data + size - 4, 4)
        memcpy(into, &ints[0], 4)
        memcpy(into + size - 4, &ints[1], 4)
    elif size > 0:
        into[0] = data[0]
        into[size >> 1] = data[size >> 1]
        into[size - 1] = data[size - 1]


cdef inline int64_t content_size(int64_t size) noexcept nogil:
    """Return how many bytes `size` bytes take with their length; a size of -1 is null."""
    return 1 if size < 0 else varint_size(<uint64_t>size << 1) + size


cdef inline uint8_t* store_content(uint8_t* into, const uint8_t* data, int64_t size) noexcept nogil:
    """Store bytes after their length; return where the next byte goes."""
    if size < 0:
        into[0] = NULL_SIZE
        return into + 1
    into = store_varint(into, <uint64_t>size << 1)
    copy_bytes(into, data, size)
    return into + size
