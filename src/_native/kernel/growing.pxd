"""Buffers that grow as they are filled, by doubling, so that each byte is copied about once.

Header only, like the cursor.
"""

from libc.stdlib cimport realloc

cdef enum:
    CAPACITY_MIN = 1024
    CAPACITY_MAX = 0x7FFFFFFF      # more than any frame, batch or response may have


cdef inline bint make_capacity(void** data, size_t* capacity, size_t needed) noexcept nogil:
    """Grow a buffer to at least `needed` bytes, keeping its content; False without memory.

    `data` is NULL at first and `capacity` 0; both are unchanged when it returns False. `needed` may
    be an untrusted length: above CAPACITY_MAX it is refused before any allocation.
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
