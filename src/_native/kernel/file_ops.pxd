"""File syscalls; all file I/O goes through them. See file_ops.pyx for their guarantees.

Sizes and results are bytes; a negative result is -errno. All are thread-safe and need no GIL.
"""

from libc.errno cimport EDQUOT, ENOSPC
from libc.stdint cimport int64_t


cdef inline bint is_no_space(int64_t result) noexcept nogil:
    """Return whether a result means a full disk or quota, which is not a failure of the disk."""
    return result == -ENOSPC or result == -EDQUOT


cdef int file_open(const char* path, int flags, int mode) noexcept nogil
cdef int file_close(int fd) noexcept nogil
cdef ssize_t file_pread(int fd, void* into, size_t size, int64_t position) noexcept nogil
cdef ssize_t file_pwrite(int fd, const void* data, size_t size, int64_t position) noexcept nogil
cdef int file_allocate(int fd, int64_t position, int64_t size) noexcept nogil
cdef int file_truncate(int fd, int64_t size) noexcept nogil
cdef int64_t file_size(int fd) noexcept nogil
cdef bint file_is_removed(int fd) noexcept nogil
cdef int file_start_writeback(int fd) noexcept nogil
cdef int file_sync_data(int fd) noexcept nogil
cdef int file_sync(int fd) noexcept nogil
cdef int file_sync_folder(const char* path) noexcept nogil
cdef int file_rename(const char* source, const char* target) noexcept nogil
cdef int file_remove(const char* path) noexcept nogil
cdef int file_make_folder(const char* path, int mode) noexcept nogil
cdef ssize_t file_send(int out_fd, int fd, int64_t position, size_t size) noexcept nogil
