from libc.stdint cimport int64_t


cdef int seal_write(const char* folder, int64_t offset) noexcept nogil
