from libc.stdint cimport uint8_t

from broker._native.kernel.growing cimport Text


cdef bint has_white_space(const uint8_t* data, size_t size) noexcept nogil
cdef bint value_put(Text* text, const uint8_t* value, size_t size, bint* is_escaped) noexcept nogil
