from libc.stdint cimport int64_t, uint8_t

from broker._native.kernel.growing cimport Text

cdef enum:
    DECIMAL_MAX = 20          # digits of an int64, and its sign


cdef uint8_t* put_decimal(uint8_t* at, int64_t number) noexcept nogil
cdef bint has_white_space(const uint8_t* data, size_t size) noexcept nogil
cdef bint value_put(Text* text, const uint8_t* value, size_t size, bint* is_escaped) noexcept nogil
