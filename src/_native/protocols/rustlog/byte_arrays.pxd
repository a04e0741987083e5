from libc.stdint cimport uint8_t, uint64_t

cdef enum:
    NUMBER_SIZE_MAX = 20      # digits of a uint64
    BYTE_SIZE_MAX = 4         # digits of a byte and the comma after it


cdef uint8_t* put_number(uint8_t* at, uint64_t value) noexcept nogil
cdef uint8_t* put_byte_array(uint8_t* at, const uint8_t* data, size_t size) noexcept nogil
