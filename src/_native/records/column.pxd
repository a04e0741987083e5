from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

cdef enum ColumnKind:
    COLUMN_BYTE = 0      # uint8, "B"
    COLUMN_INT8 = 1      # "b"
    COLUMN_INT32 = 2     # "i"
    COLUMN_INT64 = 3     # "q"
    COLUMN_UINT64 = 4    # "Q"


cdef class Column:
    cdef void* data
    cdef readonly Py_ssize_t count       # items that have a value
    cdef Py_ssize_t capacity             # items that fit into the memory
    cdef readonly Py_ssize_t item_size   # bytes
    cdef int exports                     # count of views; while there are any, memory may not move
    cdef int kind
    cdef Py_ssize_t shape[1]
    cdef Py_ssize_t strides[1]

    cdef int reserve(self, Py_ssize_t capacity) except -1
    cdef int grow(self, Py_ssize_t count) except -1


cdef Column column_new(int kind, Py_ssize_t capacity)
cdef Column column_reuse(Column old, int kind, Py_ssize_t capacity)
