from libc.stdint cimport uint8_t

cdef enum:
    BYTE_SIZE_MAX = 4         # digits of a byte and the comma after it


cdef uint8_t* put_byte_array(uint8_t* at, const uint8_t* data, size_t size) noexcept nogil
