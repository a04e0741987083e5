from cpython.object cimport PyObject
from libc.stdint cimport int64_t, uint8_t


# A descriptor that closes itself when nobody holds it any more.
cdef class OpenFile:
    cdef readonly int fd
    cdef int error       # -errno of a read that failed beside its log, which has to be told


# What may be open: linked by use while it is. Only its OpenFiles touches the links.
cdef class Openable:
    cdef OpenFiles files
    cdef OpenFile file                   # None while closed
    cdef readonly int fd                 # of `file`, or -1
    cdef PyObject* newer                 # borrowed: who is closed is not linked
    cdef PyObject* older
    cdef int64_t used_tick

    cdef bint let_go(self) noexcept
    cdef void opened(self, int fd)
    cdef void touch(self) noexcept
    cdef void close(self) noexcept


cdef class OpenFiles:
    cdef PyObject* newest
    cdef PyObject* oldest
    cdef readonly int count
    cdef public int count_max
    cdef readonly int64_t memory_bytes   # what the open ones keep in memory of their indexes
    cdef int64_t tick
    cdef readonly bint is_making_room    # by closing the longest unused

    cdef void link(self, Openable openable) noexcept
    cdef void unlink(self, Openable openable) noexcept
    cdef int open_path(self, const char* path, int flags) noexcept
    cdef bint make_room(self) noexcept
    cdef bint is_half_full(self) noexcept
    cdef int unsealed_max(self) noexcept
    cdef bint may_hold_more(self, Py_ssize_t unsealed) noexcept
    cdef int close_oldest(self, int wanted) noexcept
    cdef bint lend_memory(self, int64_t size) noexcept
    cdef void return_memory(self, int64_t size) noexcept
