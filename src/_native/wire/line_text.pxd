from libc.stdint cimport int64_t, uint8_t

cdef enum:
    DECIMAL_MAX = 20          # digits of an int64, and its sign

# Text that grows. Its owner zeroes it at first; its memory is reused for the next line.
cdef struct Text:
    uint8_t* data
    size_t size
    size_t capacity


cdef bint text_reserve(Text* text, size_t more) noexcept nogil
cdef bint text_put(Text* text, const void* data, size_t size) noexcept nogil
cdef void text_trim(Text* text, size_t capacity_max) noexcept nogil
cdef uint8_t* put_decimal(uint8_t* at, int64_t number) noexcept nogil
cdef bint has_white_space(const uint8_t* data, size_t size) noexcept nogil
cdef bint value_put(Text* text, const uint8_t* value, size_t size, bint* is_escaped) noexcept nogil
