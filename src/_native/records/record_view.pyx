"""Records as objects, created one at a time from decoded columns.

A Record is a row number and a reference to its chunk; each access to key, value or headers creates
a new Python object. It keeps its chunk's columns and bytes alive.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int8_t, int32_t, int64_t

from cython cimport final, freelist, no_gc

from broker._native.records.column cimport Column
from broker._native.records.rows cimport SpanColumn


@final
@no_gc
cdef class _Chunk:
    # The columns of some batches, which only the decoder has written.
    cdef Py_buffer view
    cdef bint has_view
    cdef object data
    cdef dict arrays
    cdef Py_ssize_t count
    cdef const char* bytes
    cdef int64_t* offset
    cdef int64_t* timestamp
    cdef int8_t* timestamp_type
    cdef int32_t* header_end
    cdef SpanColumn key, value, header_key, header_value

    def __cinit__(self, Py_ssize_t count, data, dict arrays):
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.has_view = True
        self.bytes = <const char*>self.view.buf
        self.data = data
        self.arrays = arrays
        self.count = count
        self.offset = <int64_t*>self.of("offset")
        self.timestamp = <int64_t*>self.of("timestamp")
        self.timestamp_type = <int8_t*>self.of("timestamp_type")
        self.header_end = <int32_t*>self.of("header_end")
        self.key = self.spans("key")
        self.value = self.spans("value")
        self.header_key = self.spans("header_key")
        self.header_value = self.spans("header_value")

    cdef void* of(self, str name) except NULL:
        cdef Column column = self.arrays[name]
        return column.data

    cdef SpanColumn spans(self, str field) except *:
        return SpanColumn(
            <int32_t*>self.of(f"{field}_start"), <int32_t*>self.of(f"{field}_length"))

    def __dealloc__(self):
        if self.has_view:
            PyBuffer_Release(&self.view)

    cdef inline object bytes_of(self, const SpanColumn* column, Py_ssize_t row):
        if column.length[row] < 0:
            return None
        return PyBytes_FromStringAndSize(self.bytes + column.start[row], column.length[row])


@final
@no_gc
@freelist(256)
cdef class Record:
    """One record: `offset`, `timestamp` (ms), `timestamp_type`, `key`, `value`, `headers`."""

    cdef _Chunk chunk
    cdef Py_ssize_t row

    cdef inline _Chunk rows(self):
        if self.chunk is None:
            raise TypeError("a Record is only created by reading: see broker.codec.records")
        return self.chunk

    def __reduce__(self):
        raise TypeError("a Record is a view of the bytes it was read from: copy its fields")

    @property
    def offset(self):
        """The offset in its partition."""
        return self.rows().offset[self.row]

    @property
    def timestamp(self):
        """Milliseconds since 1970, -1 in a message of magic 0."""
        return self.rows().timestamp[self.row]

    @property
    def timestamp_type(self):
        """Who has set the timestamp: 0 the producer, 1 the broker at the append, -1: there is none.
        """
        return self.rows().timestamp_type[self.row]

    @property
    def key(self):
        """The key as bytes, or None."""
        cdef _Chunk chunk = self.rows()
        return chunk.bytes_of(&chunk.key, self.row)

    @property
    def value(self):
        """The value as bytes, or None: a tombstone."""
        cdef _Chunk chunk = self.rows()
        return chunk.bytes_of(&chunk.value, self.row)

    @property
    def headers(self):
        """(name, value) of each header; the name is bytes, the value bytes or None."""
        cdef _Chunk chunk = self.rows()
        cdef int32_t i
        cdef int32_t first = 0 if self.row == 0 else chunk.header_end[self.row - 1]
        headers = []
        for i in range(first, chunk.header_end[self.row]):
            headers.append((
                chunk.bytes_of(&chunk.header_key, i), chunk.bytes_of(&chunk.header_value, i)))
        return headers

    def __repr__(self):
        return (f"<Record offset={self.offset} timestamp={self.timestamp} key={self.key!r:.40} "
                f"value={self.value!r:.40}>")


@final
cdef class RecordIterator:
    """Records of one chunk after the other; `next_chunk` returns (count, data, arrays) or None."""

    cdef object next_chunk
    cdef _Chunk chunk
    cdef Py_ssize_t row

    def __cinit__(self, next_chunk):
        self.next_chunk = next_chunk

    def __iter__(self):
        return self

    def __next__(self):
        cdef Record record
        if self.chunk is None or self.row >= self.chunk.count:
            self.advance()
        record = Record.__new__(Record)
        record.chunk = self.chunk
        record.row = self.row
        self.row += 1
        return record

    cdef int advance(self) except -1:
        """Advance to the first row of the next chunk that is not empty."""
        while self.chunk is None or self.row >= self.chunk.count:
            decoded = self.next_chunk()
            if decoded is None:
                raise StopIteration
            self.chunk = _Chunk(*decoded)
            self.row = 0
        return 0
