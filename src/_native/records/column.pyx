"""An array of numbers that Python reads through the buffer protocol.

numpy, pyarrow and memoryview use it without a copy, and none of them is needed to create one. The
memory begins on a cache line, so that Arrow's kernels can load it in vectors. While a view exists
the memory is neither moved nor reused: `column_reuse` reuses the memory of a column without views,
because page faults of fresh memory cost more than filling it.
"""

from cpython.buffer cimport PyBUF_FORMAT, PyBUF_WRITABLE
from libc.stdlib cimport free
from libc.string cimport memcpy

from cython cimport final


cdef extern from "stdlib.h" nogil:
    int posix_memalign(void** memory, size_t alignment, size_t size)

cdef enum:
    CACHE_LINE = 64

cdef Py_ssize_t[5] ITEM_SIZE = [1, 1, 4, 8, 8]
cdef const char* FORMATS = b"B\0b\0i\0q\0Q"    # of each kind, a string of two bytes


@final
cdef class Column:
    """A one-dimensional, contiguous, read-only array; `memoryview(column)` or numpy reads it."""

    def __cinit__(self):
        self.item_size = ITEM_SIZE[<int>COLUMN_BYTE]

    def __dealloc__(self):
        free(self.data)

    def __len__(self):
        return self.count

    def __buffer__(self, int flags):
        """Return a view, as in Python 3.12 (PEP 688)."""
        return memoryview(self)

    def __getbuffer__(self, Py_buffer* view, int flags):
        if flags & PyBUF_WRITABLE == PyBUF_WRITABLE:
            raise BufferError("a Column is read-only")
        self.shape[0] = self.count
        self.strides[0] = self.item_size
        view.obj = self
        view.buf = self.data if self.data != NULL else <void*>FORMATS  # Arrow aborts for NULL
        view.len = self.count * self.item_size
        view.itemsize = self.item_size
        view.readonly = 1
        view.ndim = 1
        view.format = <char*>FORMATS + 2 * self.kind if flags & PyBUF_FORMAT else NULL
        view.shape = self.shape
        view.strides = self.strides
        view.suboffsets = NULL
        view.internal = NULL
        self.exports += 1

    def __releasebuffer__(self, Py_buffer* view):
        self.exports -= 1

    cdef int reserve(self, Py_ssize_t capacity) except -1:
        """Allocate memory for `capacity` items, keeping the values. Requires that no view exists.
        """
        cdef void* memory = NULL
        if capacity <= self.capacity and self.data != NULL:
            return 0
        if self.exports:
            raise BufferError("a Column with views cannot grow")
        if posix_memalign(&memory, CACHE_LINE, <size_t>(max(capacity, 1) * self.item_size)):
            raise MemoryError
        if self.count:
            memcpy(memory, self.data, <size_t>(self.count * self.item_size))
        free(self.data)
        self.data = memory
        self.capacity = capacity
        return 0

    cdef int grow(self, Py_ssize_t count) except -1:
        """Allocate memory for `count` items, at least doubling, so that growing by one is cheap."""
        if count > self.capacity:
            self.reserve(max(count, 2 * self.capacity))
        return 0


cdef Column column_new(int kind, Py_ssize_t capacity):
    cdef Column column = Column.__new__(Column)
    column.kind = kind
    column.item_size = ITEM_SIZE[kind]
    column.reserve(capacity)
    return column


cdef Column column_reuse(Column old, int kind, Py_ssize_t capacity):
    """Return an empty column, with the memory of the old one if that has no views."""
    cdef Column column
    if old is None or old.exports or old.kind != kind or old.capacity < capacity:
        return column_new(kind, capacity)
    column = Column.__new__(Column)
    column.kind = kind
    column.item_size = old.item_size
    column.data = old.data
    column.capacity = old.capacity
    old.data = NULL
    old.count = old.capacity = 0
    return column
