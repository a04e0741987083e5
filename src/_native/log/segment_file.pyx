"""The file of a segment, `<base offset>.log`: opened, preallocated, filled ahead and written.

It holds whole record batches one after another from position 0. The tail of a busy file is
preallocated by fallocate and reads as zeros, which is no batch: a length of 0 is shorter than any
header. The preallocated tail is truncated on a clean close, when the segment is sealed and when it
becomes idle. That takes a millisecond where the file system trims every freed block (mount option
discard), so a log of a few records preallocates nothing.

A short write into pages that are not in the page cache yet is expensive: the file system sets up a
small folio and extent for each. So a busy file is filled ahead with zeros, in larger pieces; with
that, many small batches per turn take two thirds of the time. Not under group-commit: each sync
would write the zeros too.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t
from libc.stdio cimport snprintf
from posix.fcntl cimport O_CREAT, O_RDWR

from broker._native.kernel.file_ops cimport (
    file_allocate,
    file_close,
    file_pwrite,
    file_size,
    file_truncate,
    is_no_space,
)
from broker._native.log.open_files cimport Openable, OpenFiles
from broker._native.log.turn cimport AwaitedLog

from broker.model import limits

cdef int64_t TAIL_RESERVE_BYTES_MIN = limits.TAIL_RESERVE_BYTES_MIN
cdef int64_t TAIL_RESERVE_BYTES_MAX = limits.TAIL_RESERVE_BYTES_MAX
cdef int64_t TAIL_RESERVE_AFTER_BYTES = limits.TAIL_RESERVE_AFTER_BYTES
cdef int64_t TAIL_FILL_BYTES = limits.TAIL_FILL_BYTES
cdef int64_t TAIL_FILL_AFTER_BYTES = limits.TAIL_FILL_AFTER_BYTES
cdef int64_t TAIL_FILL_WRITE_BYTES_MAX = limits.TAIL_FILL_WRITE_BYTES_MAX
assert FILL_SIZE == limits.TAIL_FILL_BYTES

cdef enum:
    FILL_SIZE = 64 << 10

cdef uint8_t[FILL_SIZE] ZEROS


@cython.no_gc
cdef class SegmentFile(Openable):
    """The file of one segment; Segment adds its indexes and the search in it."""

    def __cinit__(self, OpenFiles files, bytes folder, int64_t base_offset):
        self.files = files
        self.folder = folder
        self.folder_path = self.folder
        self.base_offset = base_offset
        self.fd = -1
        self.is_settled = True

    cdef void path(self, char* into, const char* suffix) noexcept nogil:
        """Write the path of one of the segment's files; `into` has PATH_SIZE bytes."""
        snprintf(into, PATH_SIZE, b"%s/%020lld%s", self.folder_path, <long long>self.base_offset,
                 suffix)

    cdef int open(self, bint create) noexcept:
        """Open the file and read its size. 0 or -errno."""
        cdef char path[PATH_SIZE]
        cdef int64_t size
        cdef int fd
        if self.fd >= 0:
            self.touch()
            return 0
        self.path(path, b".log")
        fd = self.files.open_path(path, O_RDWR | (O_CREAT if create else 0))
        if fd < 0:
            return fd
        size = file_size(fd)
        if size < 0:
            file_close(fd)
            return <int>size
        self.opened(fd)
        self.reserved = size
        self.since_opened = 0
        return 0

    cdef bint try_close(self) noexcept:
        if self.is_settled:
            self.close()
        elif self.log != NULL:
            (<AwaitedLog>self.log).go_idle()
        return self.fd < 0

    cdef int reserve(self, int64_t size, int64_t step_max) noexcept nogil:
        """Preallocate the file up to `size` bytes, or up to twice its size. 0 or -errno.

        The step is at most `step_max`; without disk space for it, only `size` is preallocated.
        """
        cdef int64_t step = self.reserved
        cdef int status
        if size <= self.reserved:
            return 0
        if step < TAIL_RESERVE_BYTES_MIN:
            step = TAIL_RESERVE_BYTES_MIN
        if step > step_max:
            step = step_max
        if step < size - self.reserved:
            step = size - self.reserved
        status = file_allocate(self.fd, self.reserved, step)
        if is_no_space(status) and step > size - self.reserved:
            step = size - self.reserved
            status = file_allocate(self.fd, self.reserved, step)
        if status < 0:
            return self.undo(status, self.reserved)   # a part may have been allocated
        self.reserved += step
        return 0

    cdef int write(self, const uint8_t* data, size_t size, bint fills) noexcept nogil:
        """Write at the end of the file's batches. 0 or -errno.

        Without disk space the file is unchanged; after another error its content is undefined.
        """
        cdef int status = 0
        cdef ssize_t written
        if self.since_opened >= TAIL_RESERVE_AFTER_BYTES:
            status = self.reserve(self.written + <int64_t>size, TAIL_RESERVE_BYTES_MAX)
        if status < 0:
            return status
        self.is_settled = False
        if fills and self.since_opened >= TAIL_FILL_AFTER_BYTES:
            status = self.fill(<int64_t>size)
            if status < 0:
                return self.undo(status, self.written)
        written = file_pwrite(self.fd, data, size, self.written)
        if written < 0:
            return self.undo(<int>written, self.written)
        self.written += <int64_t>size
        self.since_opened += <int64_t>size
        self.reserved = max(self.reserved, self.written)
        return 0

    cdef int undo(self, int status, int64_t size) noexcept nogil:
        """Truncate what a write without disk space has left, and return the resulting status."""
        cdef int cut
        if not is_no_space(status):
            return status
        cut = file_truncate(self.fd, size)
        if cut < 0:
            return cut
        self.reserved = size
        self.filled = min(self.filled, size)
        return status

    cdef int fill(self, int64_t size) noexcept nogil:
        """Write zeros ahead, so that the page cache has the next `size` bytes. 0 or -errno."""
        cdef int64_t end
        cdef ssize_t written
        if self.written + size <= self.filled or size > TAIL_FILL_WRITE_BYTES_MAX:
            return 0
        self.filled = max(self.filled, self.written)
        # Up to a multiple of the piece: the page cache keeps aligned pieces as one folio.
        end = (self.written + size + TAIL_FILL_BYTES - 1) // TAIL_FILL_BYTES * TAIL_FILL_BYTES
        end = min(end, self.reserved, self.filled + TAIL_FILL_BYTES)
        written = file_pwrite(self.fd, ZEROS, <size_t>(end - self.filled), self.filled)
        if written < 0:
            return <int>written
        self.filled = end
        return 0
