from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t

from broker._native.log.open_files cimport Openable

cdef enum:
    PATH_SIZE = 4096


cdef class SegmentFile(Openable):
    cdef readonly int64_t base_offset
    cdef readonly int64_t written       # log bytes in the file
    cdef int64_t reserved               # bytes allocated in the file
    cdef int64_t filled                 # written up to here, with batches or zeros
    cdef int64_t since_opened           # log bytes written since the file was opened
    cdef bint is_settled                # all bytes are on the disk, no preallocated tail is left
    cdef PyObject* log                  # borrowed: the AwaitedLog that writes it
    cdef bytes folder                   # owns what folder_path points to
    cdef const char* folder_path

    cdef void path(self, char* into, const char* suffix) noexcept nogil
    cdef int open(self, bint create) noexcept
    cdef int reserve(self, int64_t size, int64_t step_max) noexcept nogil
    cdef int write(self, const uint8_t* data, size_t size, bint fills) noexcept nogil
    cdef int fill(self, int64_t size) noexcept nogil
    cdef int undo(self, int status, int64_t size) noexcept nogil
