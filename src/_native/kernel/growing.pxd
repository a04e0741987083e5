"""Buffers that grow as they are filled: each time to twice of what they were, so that filling one
copies each byte about once.

Header only, as the cursor is.
"""

from libc.stdlib cimport realloc

cdef enum:
    CAPACITY_MIN = 1024
    CAPACITY_MAX = 0x7FFFFFFF      # more than any frame, batch or answer may have


cdef inline bint make_capacity(void** data, size_t* capacity, size_t needed) noexcept nogil:
    """Have memory for so many bytes, with what is in it; False when there is none, or never may be.

    `data` is NULL at first, `capacity` 0; both stay as they are when it is False. What is needed
    may be a length that somebody else wrote: too much is refused before anything is asked for.
    """
    cdef size_t grown_capacity = capacity[0]
    cdef void* grown
    if needed <= grown_capacity:
        return True
    if needed > CAPACITY_MAX:
        return False
    grown_capacity = min(
        max(max(needed, 2 * grown_capacity), <size_t>CAPACITY_MIN), <size_t>CAPACITY_MAX)
    grown = realloc(data[0], grown_capacity)
    if grown == NULL:
        return False
    data[0] = grown
    capacity[0] = grown_capacity
    return True
