"""Buffers that grow as they are filled, by doubling, so that each byte is copied about once.

Header only, like the cursor.
"""

from libc.stdint cimport uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy

cdef enum:
    CAPACITY_MIN = 1024
    CAPACITY_MAX = 0x7FFFFFFF      # more than any frame, batch or response may have

# Bytes that grow. Their owner zeroes it at first; the memory is reused for the next text.
cdef struct Text:
    uint8_t* data
    size_t size
    size_t capacity


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


cdef inline bint text_reserve(Text* text, size_t more) noexcept nogil:
    """Reserve memory for `more` bytes after the text; return False without memory."""
    return make_capacity(<void**>&text.data, &text.capacity, text.size + more)


cdef inline bint text_put(Text* text, const void* data, size_t size) noexcept nogil:
    """Append bytes; return False without memory."""
    if not text_reserve(text, size):
        return False
    if size > 0:              # `data` may still be NULL
        memcpy(text.data + text.size, data, size)
        text.size += size
    return True


cdef inline void text_trim(Text* text, size_t capacity_max) noexcept nogil:
    """Free the memory of a text that has grown beyond a capacity."""
    if text.capacity > capacity_max:
        free(text.data)
        text.data = NULL
        text.size = text.capacity = 0
