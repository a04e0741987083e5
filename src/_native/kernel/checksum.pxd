from libc.stdint cimport uint8_t, uint32_t

cdef uint32_t crc32_extend(uint32_t crc, const uint8_t* data, size_t size) noexcept nogil
cdef uint32_t crc32c_extend(uint32_t crc, const uint8_t* data, size_t size) noexcept nogil
