"""Columns of records for an encoder: Columns of the decoder, Arrow arrays or numpy arrays.

The types and lengths of the arrays are checked here, once. Their items are checked when they are
read, in `row_read`.
"""

from cpython.buffer cimport PyBuffer_IsContiguous
from libc.stdint cimport int32_t, int64_t, uint8_t

from cython cimport final

from broker.model.errors import Corrupt


cdef extern from "Python.h":
    Py_buffer* PyMemoryView_GET_BUFFER(object view)

cdef dict FAULTS = {
    SOURCE_KEY_OUTSIDE: "its key is not within the key column's buffer",
    SOURCE_VALUE_OUTSIDE: "its value is not within the value column's buffer",
    SOURCE_HEADERS_OUTSIDE: "its headers are not within the columns of headers",
    SOURCE_HEADER_KEY_OUTSIDE: "the key of a header is not within its column's buffer",
    SOURCE_HEADER_KEY_NULL: "a header has no key",
    SOURCE_HEADER_VALUE_OUTSIDE: "the value of a header is not within its column's buffer",
}

cdef enum:
    FORM_OF_NUMBERS = 4      # of "ilqn": as many signed formats of 4 or 8 bytes

cdef const char* SIGNED_FORMATS = b"ilqn"


@final
cdef class ColumnSource:
    """Rows for an encoder; columns that are not set are null.

    Nothing is copied: every buffer is held, and must not shrink, as long as the source exists.
    The names are "key", "value", "header_key" and "header_value". Anything that cannot be a column
    of `count` rows is a TypeError or ValueError; the content is checked when it is encoded.
    """

    def __cinit__(self, Py_ssize_t count):
        if count < 0:
            raise ValueError(f"a source of {count} rows")
        self.count = self.columns.count = count
        self.held = []

    def spans(self, str name, data, starts, lengths):
        """Set a column of int32 starts and lengths (-1: null) over one buffer."""
        cdef ContentColumn* column = self.new_column(name)
        cdef Py_ssize_t count = len(memoryview(lengths))
        if name in {"header_key", "header_value"}:
            self.count_headers(count)
        elif count != self.count:
            raise ValueError(f"{name}: expected {self.count} lengths, got {count}")
        column.lengths = <const int32_t*>self.hold_numbers(name, lengths, 4, count).buf
        column.starts = <const int32_t*>self.hold_numbers(name, starts, 4, count).buf
        self.set_data(column, data)
        column.form = CONTENT_SPANS

    def ends(self, str name, data, ends, *, validity=None, Py_ssize_t validity_first=0):
        """Set an Arrow column: row i is data[ends[i]:ends[i + 1]]; the ends are int32 or int64.

        Bit `validity_first` + i of the validity says whether row i is not null.
        """
        cdef ContentColumn* column = self.new_column(name)
        cdef const Py_buffer* view
        cdef Py_ssize_t count = max(0, len(memoryview(ends)) - 1)
        if name in {"header_key", "header_value"}:
            self.count_headers(count)
        elif count != self.count:
            raise ValueError(f"{name}: expected {self.count} + 1 ends, got {count + 1}")
        view = self.hold_numbers(name, ends, 0, count + 1)
        column.validity = self.hold_bits(name, validity, validity_first, count)
        column.ends = view.buf
        self.set_data(column, data)
        column.form = CONTENT_ENDS_32 if view.itemsize == 4 else CONTENT_ENDS_64

    def header_ends(self, ends):
        """Set the headers of row i: from ends[i - 1] (row 0: from 0) to ends[i]; int32."""
        cdef HeaderColumns* headers = self.new_headers()
        headers.ends = self.hold_numbers("header_end", ends, 4, self.count).buf
        headers.starts_at_zero = True
        headers.form = CONTENT_ENDS_32

    def header_lists(self, ends, *, validity=None, Py_ssize_t validity_first=0):
        """Set the headers as Arrow lists: one more int32 or int64 than rows; null: no headers."""
        cdef HeaderColumns* headers = self.new_headers()
        cdef const Py_buffer* view = self.hold_numbers("headers", ends, 0, self.count + 1)
        headers.validity = self.hold_bits("headers", validity, validity_first, self.count)
        headers.ends = view.buf
        headers.form = CONTENT_ENDS_32 if view.itemsize == 4 else CONTENT_ENDS_64

    def timestamps(self, values, *, int64_t units=1, validity=None, Py_ssize_t validity_first=0):
        """Set int64 timestamps of `units` per millisecond; null: the encoder's timestamp."""
        cdef const Py_buffer* view = self.hold_numbers("timestamp", values, 8, self.count)
        cdef Validity valid = self.hold_bits("timestamp", validity, validity_first, self.count)
        if units <= 0:
            raise ValueError(f"timestamp: {units} units to a millisecond")
        self.columns.timestamps = <const int64_t*>view.buf
        self.columns.timestamps_validity = valid
        self.columns.timestamp_units = units

    def offsets(self, values):
        """Set the int64 offsets of the records in their log."""
        cdef const Py_buffer* view = self.hold_numbers("offset", values, 8, self.count)
        self.columns.offsets = <const int64_t*>view.buf

    # A column can be set only once: what was checked is what will be read.

    cdef ContentColumn* new_column(self, str name) except NULL:
        cdef ContentColumn* column
        if name == "key":
            column = &self.columns.keys
        elif name == "value":
            column = &self.columns.values
        elif name == "header_key":
            column = &self.columns.headers.keys
        elif name == "header_value":
            column = &self.columns.headers.values
        else:
            raise ValueError(f"no column is named {name}")
        if column.form != CONTENT_NULL:
            raise ValueError(f"{name} is already set")
        return column

    cdef HeaderColumns* new_headers(self) except NULL:
        if self.columns.headers.form != CONTENT_NULL:
            raise ValueError("headers are already set")
        return &self.columns.headers

    cdef int count_headers(self, Py_ssize_t count) except -1:
        cdef HeaderColumns* headers = &self.columns.headers
        if headers.keys.form == CONTENT_NULL and headers.values.form == CONTENT_NULL:
            headers.count = count
        elif headers.count != count:
            raise ValueError(f"{headers.count} keys or values of headers, and {count} of the other")
        return 0

    cdef int set_data(self, ContentColumn* column, object data) except -1:
        cdef const Py_buffer* view = self.hold(b"" if data is None else data)
        column.data = <const uint8_t*>view.buf
        column.data_size = view.len
        return 0

    cdef Validity hold_bits(
            self, str name, object validity, Py_ssize_t first, Py_ssize_t count) except *:
        cdef const Py_buffer* view
        if validity is None:
            return Validity(NULL, 0)
        view = self.hold(validity)
        if first < 0 or first > 8 * view.len - count:
            raise ValueError(f"{name}: {8 * view.len} bits of validity for {first} + {count} rows")
        return Validity(<const uint8_t*>view.buf, first)

    cdef const Py_buffer* hold_numbers(
            self, str name, object array, Py_ssize_t item_size, Py_ssize_t count) except NULL:
        """Hold an array of exactly `count` signed numbers; item size 0: of 4 or of 8 bytes."""
        cdef const Py_buffer* view = self.hold(array)
        cdef bint is_signed = False
        cdef int i
        if view.format != NULL and view.format[0] != 0 and view.format[1] == 0:
            for i in range(FORM_OF_NUMBERS):
                is_signed = is_signed or view.format[0] == SIGNED_FORMATS[i]
        if not is_signed or (view.itemsize != item_size and item_size != 0):
            raise TypeError(f"{name}: expected int{8 * item_size if item_size else '32 or int64'}, "
                            f"got items of format {(<bytes>view.format).decode()!r}")
        if view.len != count * view.itemsize:
            raise ValueError(f"{name}: expected {count} items, got {view.len // view.itemsize}")
        if view.len and <size_t>view.buf % <size_t>view.itemsize:
            raise ValueError(f"{name}: the array is not aligned to its items")
        return view

    cdef const Py_buffer* hold(self, object exporter) except NULL:
        cdef object view = memoryview(exporter)
        cdef const Py_buffer* buffer = PyMemoryView_GET_BUFFER(view)
        if not PyBuffer_IsContiguous(<Py_buffer*>buffer, b"C"):
            raise ValueError("a column's memory is not contiguous")
        self.held.append(view)
        return buffer


cdef object source_error(SourceStatus status, int64_t row):
    """Return the exception for a row that was not read."""
    if status == SOURCE_NO_MEMORY:
        return MemoryError()
    return Corrupt(f"row {row}: {FAULTS[<int>status]}")
