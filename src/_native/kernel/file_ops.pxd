"""File syscalls; all file I/O goes through them. See file_ops.pyx for their guarantees.

Sizes and results are bytes; a negative result is -errno. All are thread-safe and need no GIL.
"""

from libc.errno cimport EDQUOT, ENOSPC
from libc.stdint cimport int64_t


cdef extern from "kernel/file_ops_table.h" nogil:
    ctypedef struct FileTable:
        int (*open)(const char* path, int flags, int mode) noexcept nogil
        int (*close)(int fd) noexcept nogil
        ssize_t (*pread)(int fd, void* into, size_t size, int64_t position) noexcept nogil
        ssize_t (*pwrite)(int fd, const void* data, size_t size, int64_t position) noexcept nogil
        int (*allocate)(int fd, int64_t position, int64_t size) noexcept nogil
        int (*truncate)(int fd, int64_t size) noexcept nogil
        int64_t (*size)(int fd) noexcept nogil
        int (*start_writeback)(int fd) noexcept nogil
        int (*sync_data)(int fd) noexcept nogil
        int (*sync)(int fd) noexcept nogil
        int (*sync_folder)(const char* path) noexcept nogil
        int (*sync_filesystem)(const char* path) noexcept nogil
        int (*rename)(const char* source, const char* target) noexcept nogil
        int (*remove)(const char* path) noexcept nogil
        int (*make_folder)(const char* path, int mode) noexcept nogil
        int (*list_folder)(const char* path) noexcept nogil
        ssize_t (*send)(int out_fd, int fd, int64_t position, size_t size) noexcept nogil


cdef inline bint is_no_space(int64_t result) noexcept nogil:
    """Return whether a result means a full disk or quota, which is not a failure of the disk."""
    return result == -ENOSPC or result == -EDQUOT


cdef const FileTable* file_table() noexcept nogil
cdef bint file_is_removed(int fd) noexcept nogil
cdef ssize_t file_read_at(
    const char* path, void* into, size_t size, int64_t position) noexcept nogil
cdef int file_write_at(
    const char* path, const void* data, size_t size, int64_t position) noexcept nogil


cdef inline int file_open(const char* path, int flags, int mode) noexcept nogil:
    return file_table().open(path, flags, mode)


cdef inline int file_close(int fd) noexcept nogil:
    return file_table().close(fd)


cdef inline ssize_t file_pread(int fd, void* into, size_t size, int64_t position) noexcept nogil:
    return file_table().pread(fd, into, size, position)


cdef inline ssize_t file_pwrite(
        int fd, const void* data, size_t size, int64_t position) noexcept nogil:
    return file_table().pwrite(fd, data, size, position)


cdef inline int file_allocate(int fd, int64_t position, int64_t size) noexcept nogil:
    return file_table().allocate(fd, position, size)


cdef inline int file_truncate(int fd, int64_t size) noexcept nogil:
    return file_table().truncate(fd, size)


cdef inline int64_t file_size(int fd) noexcept nogil:
    return file_table().size(fd)


cdef inline int file_sync_data(int fd) noexcept nogil:
    return file_table().sync_data(fd)


cdef inline int file_sync(int fd) noexcept nogil:
    return file_table().sync(fd)


cdef inline int file_sync_folder(const char* path) noexcept nogil:
    return file_table().sync_folder(path)


cdef inline int file_rename(const char* source, const char* target) noexcept nogil:
    return file_table().rename(source, target)


cdef inline int file_remove(const char* path) noexcept nogil:
    return file_table().remove(path)
