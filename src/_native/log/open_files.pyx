"""The open segment files: the most recently used ones, a bounded number.

Segments are opened when they are needed and closed here: the least recently used when there are
more than `count_max`, and each that was not used during a whole tick, so that an idle partition
holds no descriptor. A reply that is still to be sent holds the descriptor itself, not the segment:
it can be sent to its end, whatever happens to the segment meanwhile. A segment with bytes that are
not on the disk yet is not closed at once; its log starts a sync (`try_close`).

`count_max` is a soft limit for reads: when all files are in use, one more is opened, and only the
kernel's own limit (EMFILE) stops that. For writes it is a hard limit (`make_room`): they are
refused until a sync allows others to be closed, so that connections and small files keep their
share of the descriptors.

A full segment stays open until it is synced. A log that fills segments faster than the disk syncs
them may hold only a few of them (`may_hold_more`), and none unless a quarter of the files stays
available to others: its next roll waits, and the active segment grows meanwhile.
"""

cimport cython
from cpython.object cimport PyObject
from libc.errno cimport EMFILE, ENFILE
from libc.stdint cimport int64_t

from broker._native.kernel.clock cimport monotonic_us
from broker._native.kernel.file_ops cimport file_close, file_open

from broker.model import limits

cdef int64_t INDEX_MEMORY_BYTES_MAX = limits.INDEX_MEMORY_BYTES_MAX
cdef int UNSEALED_SEGMENTS_MAX = limits.UNSEALED_SEGMENTS_MAX

cdef enum:
    CLOSED_AT_ONCE = 16    # files closed when the kernel refuses a descriptor
    TRIED_MAX = 64         # files tried per call of `close_oldest`


@cython.final
cdef class OpenFile:
    """An open file, closed with its last reference."""

    def __cinit__(self, int fd):
        self.fd = fd

    def __dealloc__(self):
        if self.fd >= 0:
            file_close(self.fd)


@cython.no_gc   # it is in no reference cycle, and `files` must still exist when it is deallocated
cdef class Openable:
    """A file that OpenFiles may close."""

    def __dealloc__(self):
        if self.fd >= 0:
            self.files.unlink(self)

    cdef bint try_close(self) noexcept:
        """Close the file, or start what lets it be closed soon. Return whether it is closed."""
        self.close()
        return True

    cdef void opened(self, int fd):
        """Take ownership of a descriptor."""
        self.file = OpenFile(fd)
        self.fd = fd
        self.files.link(self)

    cdef void touch(self) noexcept:
        """Move the file to the recent end of the list: it has been used."""
        self.used_tick = self.files.tick
        if self.files.newest != <PyObject*>self:
            self.files.unlink(self)
            self.files.link(self)

    cdef void close(self) noexcept:
        """Release the file; it stays open for those that still read it."""
        if self.fd >= 0:
            self.files.unlink(self)
            self.fd = -1
            self.file = None


@cython.final
cdef class OpenFiles:
    """The open segments of one broker."""

    def __cinit__(self, int count_max=limits.OPEN_SEGMENTS_MIN):
        self.count_max = count_max

    cdef void link(self, Openable openable) noexcept:
        openable.used_tick = self.tick
        openable.newer = NULL
        openable.older = self.newest
        if self.newest != NULL:
            (<Openable>self.newest).newer = <PyObject*>openable
        else:
            self.oldest = <PyObject*>openable
        self.newest = <PyObject*>openable
        self.count += 1

    cdef void unlink(self, Openable openable) noexcept:
        if openable.newer != NULL:
            (<Openable>openable.newer).older = openable.older
        else:
            self.newest = openable.older
        if openable.older != NULL:
            (<Openable>openable.older).newer = openable.newer
        else:
            self.oldest = openable.newer
        openable.newer = openable.older = NULL
        self.count -= 1

    cdef int open_path(self, const char* path, int flags) noexcept:
        """Open a file or folder, closing others if necessary. Return a descriptor or -errno."""
        cdef int fd
        self.make_room()
        fd = file_open(path, flags, 0o600)
        if (fd == -EMFILE or fd == -ENFILE) and self.close_oldest(CLOSED_AT_ONCE) > 0:
            fd = file_open(path, flags, 0o600)
        return fd

    cdef bint make_room(self) noexcept:
        """Close the least recently used until one more may be opened; return whether it may."""
        if self.count >= self.count_max:
            self.close_oldest(self.count - self.count_max + 1)
        return self.count < self.count_max

    cdef bint is_half_full(self) noexcept:
        """Return whether files that can be closed should be, to leave descriptors for others."""
        return self.count * 2 >= self.count_max

    cdef int unsealed_max(self) noexcept:
        """Return how many full segments one log may hold open until they are synced."""
        return min(UNSEALED_SEGMENTS_MAX, max(self.count_max // 8, 1))

    cdef bint may_hold_more(self, Py_ssize_t unsealed) noexcept:
        """Return whether a log with `unsealed` full segments that wait for a sync may begin one
        more.

        Other files are closed for it if necessary, perhaps the log's own active segment.
        """
        cdef int limit = self.count_max - self.count_max // 4
        if unsealed >= self.unsealed_max():
            return False
        if self.count >= limit:
            self.close_oldest(self.count - limit + 1)
        return self.count < limit

    cdef int close_oldest(self, int wanted) noexcept:
        """Close `wanted` of the least recently used; return how many could be closed."""
        cdef PyObject* place = self.oldest
        cdef PyObject* newer
        cdef int tried = 0, closed = 0
        self.is_making_room = True
        while place != NULL and closed < wanted and tried < TRIED_MAX:
            newer = (<Openable>place).newer
            if (<Openable>place).try_close():
                closed += 1
            place = newer
            tried += 1
        self.is_making_room = False
        return closed

    cdef bint reserve_memory(self, int64_t size) noexcept:
        """Return whether an index of that size fits into the memory budget, and count it if so."""
        if self.memory_bytes + size > INDEX_MEMORY_BYTES_MAX:
            return False
        self.memory_bytes += size
        return True

    cdef void release_memory(self, int64_t size) noexcept:
        self.memory_bytes -= size

    def begin_tick(self):
        """Begin a tick: a file that is not used before the next one begins counts as idle."""
        self.tick += 1

    def close_idle(self, int64_t budget_us):
        """Close files that were not used in the last whole tick, for at most `budget_us`.

        Returns how many were closed. Truncating a preallocated tail can take a millisecond where
        the file system trims every freed block (mount option discard), and the loop waits for it.
        """
        cdef int64_t end = monotonic_us() + budget_us
        cdef PyObject* place = self.oldest
        cdef PyObject* newer
        cdef int closed = 0
        while place != NULL and (<Openable>place).used_tick < self.tick - 1:
            newer = (<Openable>place).newer
            if (<Openable>place).try_close():
                closed += 1
            place = newer
            if monotonic_us() >= end:
                break
        return closed
