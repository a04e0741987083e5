from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t


# A descriptor that is closed with the last reference to it.
cdef class OpenFile:
    cdef readonly int fd
    cdef int error       # -errno of a read that failed outside its log; the log goes offline for it


# A file that may be open. While it is open it is in the list of its OpenFiles, ordered by last use.
cdef class Openable:
    cdef OpenFiles files
    cdef OpenFile file                   # None while closed
    cdef readonly int fd                 # of `file`, or -1
    cdef PyObject* newer                 # borrowed: a closed file is not in the list
    cdef PyObject* older
    cdef int64_t used_tick

    cdef bint try_close(self) noexcept
    cdef void opened(self, int fd)
    cdef void touch(self) noexcept
    cdef void close(self) noexcept


cdef class OpenFiles:
    cdef PyObject* newest
    cdef PyObject* oldest
    cdef readonly int count
    cdef public int count_max
    cdef readonly int64_t memory_bytes   # size of the open files' indexes in memory
    cdef int64_t tick
    cdef readonly bint is_making_room    # while it closes the least recently used files

    cdef void link(self, Openable openable) noexcept
    cdef void unlink(self, Openable openable) noexcept
    cdef int open_path(self, const char* path, int flags) noexcept
    cdef bint make_room(self) noexcept
    cdef bint is_half_full(self) noexcept
    cdef int unsealed_max(self) noexcept
    cdef bint may_hold_more(self, Py_ssize_t unsealed) noexcept
    cdef int close_oldest(self, int wanted) noexcept
    cdef bint reserve_memory(self, int64_t size) noexcept
    cdef void release_memory(self, int64_t size) noexcept
