"""Encodes record batches (layout: record_batch.pyx) from columns or from Python objects.

A record is measured before it is written, because its length comes first, as a varint; it is then
stored without further checks. The current batch is a bytes object with no other reference: its
records follow space for the header, which is filled in at the end, and the object is then shrunk to
its size. So an uncompressed record is copied once.

    row -> put_row -> PUT_DONE
                      PUT_GROW         grow the bytes object, then retry
                      PUT_FULL         finish the batch, then retry as the first row of the next
                      PUT_TOO_LARGE, PUT_BACKWARDS: an error of the caller
"""

from cpython.bytes cimport (
    PyBytes_AS_STRING, PyBytes_Check, PyBytes_FromStringAndSize, PyBytes_GET_SIZE,
)
from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from cpython.object cimport PyObject
from cpython.tuple cimport PyTuple_Check
from cpython.unicode cimport PyUnicode_Check
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy

from cython cimport final

from broker._native.kernel.varint cimport store_varint, varint_size, zigzag
from broker._native.records.column_source cimport (
    SOURCE_READ, Columns, ColumnSource, Content, Headers, Row, SourceStatus, headers_reserve,
    row_read, source_error,
)
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC, ATTRIBUTE_LOG_APPEND_TIME, BATCH_HEADER_SIZE, BATCH_SIZE_MAX, BatchInfo,
    batch_store_header,
)
from broker._native.records.record_store cimport content_size, store_content

from broker.model.errors import Corrupt, LimitExceeded


cdef extern from "Python.h":
    # References counted by hand: _PyBytes_Resize requires the only one.
    PyObject* new_bytes "PyBytes_FromStringAndSize"(const char* bytes, Py_ssize_t size) except NULL
    int _PyBytes_Resize(PyObject** bytes, Py_ssize_t size) except -1
    void Py_XDECREF(PyObject* thing)
    Py_ssize_t Py_REFCNT(PyObject* thing)
    # The same as in cpython.bytes and cpython.tuple, for borrowed references.
    bint is_plain_bytes "PyBytes_CheckExact"(PyObject* thing)
    const char* bytes_of "PyBytes_AS_STRING"(PyObject* thing)
    Py_ssize_t size_of "PyBytes_GET_SIZE"(PyObject* thing)
    PyObject* item_of "PyTuple_GET_ITEM"(PyObject* tuple, Py_ssize_t index)

cdef enum:
    MAPPED_MIN = 128 << 10        # glibc's initial M_MMAP_THRESHOLD
    LARGE_MEMORY = 8 << 20        # the largest batch allocated from freed heap memory
    CAPACITY_MIN = 512            # most batches of a coordinator are smaller
    RECORD_OVERHEAD = 24          # bytes of a record besides key and value: estimate for capacities
    OFFSET_DELTA_MAX = 0x7FFFFFFF
    SEQUENCES = 0x80000000        # sequence numbers wrap to zero at 2^31

cdef enum PutStatus:
    PUT_DONE = 0
    PUT_GROW
    PUT_FULL
    PUT_TOO_LARGE
    PUT_BACKWARDS

# The current batch.
cdef struct Batch:
    uint8_t* bytes
    int64_t capacity
    int64_t limit
    int64_t size                 # bytes written, including the space for the header
    int64_t needed               # its size with the row that did not fit
    int32_t record_count
    bint keeps_offsets           # every row has its own offset
    bint has_last_offset         # of this batch or of the previous one
    int64_t base_offset
    int64_t last_offset
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t timestamp            # of rows without one


cdef int64_t headers_size(const Headers* headers, int64_t limit) noexcept nogil:
    """Return the size of the headers; counting stops above the limit."""
    cdef int64_t size = varint_size(<uint64_t>headers.count << 1), i
    for i in range(headers.count):
        size += (content_size(headers.items[i].key.size)
                 + content_size(headers.items[i].value.size))
        if size > limit:
            break
    return size


cdef void store_headers(uint8_t* into, const Headers* headers) noexcept nogil:
    cdef int64_t i
    into = store_varint(into, <uint64_t>headers.count << 1)
    for i in range(headers.count):
        into = store_content(into, headers.items[i].key.data, headers.items[i].key.size)
        into = store_content(into, headers.items[i].value.data, headers.items[i].value.size)


cdef inline PutStatus put_row(Batch* batch, const Row* row) noexcept nogil:
    """Add a record to the batch; or return why it was not added."""
    cdef int64_t timestamp = row.timestamp if row.has_timestamp else batch.timestamp
    cdef int64_t offset_delta = batch.record_count
    cdef int64_t base_timestamp = batch.base_timestamp if batch.record_count else timestamp
    cdef int64_t header_count = row.headers.count
    cdef int64_t body, needed
    cdef uint64_t timestamp_delta
    cdef uint8_t* next
    if batch.keeps_offsets:
        if batch.has_last_offset and row.offset <= batch.last_offset:
            return PUT_BACKWARDS
        if batch.record_count == 0:
            batch.base_offset = row.offset
        if <uint64_t>row.offset - <uint64_t>batch.base_offset > OFFSET_DELTA_MAX:
            return PUT_FULL
        offset_delta = row.offset - batch.base_offset
    # The difference of any two timestamps wraps, and so does the sum of the reader.
    timestamp_delta = zigzag(<int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp))
    body = (1 + varint_size(timestamp_delta) + varint_size(<uint64_t>offset_delta << 1)
            + content_size(row.key.size) + content_size(row.value.size)
            + (headers_size(row.headers, batch.limit) if header_count else 1))
    needed = batch.size + varint_size(<uint64_t>body << 1) + body
    if needed > batch.capacity:
        batch.needed = needed
        if needed <= batch.limit:
            return PUT_GROW
        return PUT_FULL if batch.record_count else PUT_TOO_LARGE
    next = store_varint(batch.bytes + batch.size, <uint64_t>body << 1)
    next[0] = 0    # attributes: none are defined
    next = store_varint(next + 1, timestamp_delta)
    next = store_varint(next, <uint64_t>offset_delta << 1)
    next = store_content(next, row.key.data, row.key.size)
    next = store_content(next, row.value.data, row.value.size)
    if header_count:
        store_headers(next, row.headers)
    else:
        next[0] = 0
    if batch.record_count == 0:
        batch.base_timestamp = batch.max_timestamp = timestamp
    elif timestamp > batch.max_timestamp:
        batch.max_timestamp = timestamp
    batch.last_offset = <int64_t>(<uint64_t>batch.base_offset + <uint64_t>offset_delta)
    batch.has_last_offset = True
    batch.size = needed
    batch.record_count += 1
    return PUT_DONE


cdef int64_t put_rows(Batch* batch, const Columns* columns, int64_t number, Row* row,
                      SourceStatus* source_status, PutStatus* put_status) noexcept nogil:
    """Add the rows from `number` on; return the first not added, with the reason, or the count."""
    # Local copies: the compiler knows that stores of bytes do not change them.
    cdef Batch batch_here = batch[0]
    cdef Row row_here = row[0]
    cdef SourceStatus read = SOURCE_READ
    cdef PutStatus put = PUT_DONE
    while number < columns.count:
        read = row_read(columns, number, &row_here)
        if read != SOURCE_READ:
            break
        put = put_row(&batch_here, &row_here)
        if put != PUT_DONE:
            break
        number += 1
    batch[0] = batch_here
    row[0] = row_here
    source_status[0] = read
    put_status[0] = put
    return number


cdef bint large_memory_is_kept = False


cdef void keep_large_memory() noexcept:
    """Make the allocator reuse freed memory for batches instead of mapping fresh pages.

    Page faults of fresh pages cost several times as much as encoding (120 ns per record instead of
    17 at 100 bytes). glibc maps fresh pages for every block larger than the largest mapping that
    was ever freed; so a large one is allocated and freed untouched. Other allocators ignore that.
    """
    global large_memory_is_kept
    if not large_memory_is_kept:
        large_memory_is_kept = True
        PyMem_RawFree(PyMem_RawMalloc(LARGE_MEMORY))


@final
cdef class BatchEncoder:
    """Encodes rows to batches: append any number of times, then call `finish`.

    Not thread-safe. After an exception the encoder cannot be used any more.
    """

    cdef Batch batch
    cdef Row row
    cdef Headers headers
    cdef PyObject* buffer            # batch.bytes points into it; the only reference
    cdef int64_t row_number          # count of all rows appended
    cdef BatchInfo info              # the header fields that all batches share
    cdef object compress
    cdef list batches
    cdef list kept                   # converted objects of the present row, kept alive
    cdef bint is_busy
    cdef int64_t full_size           # of the last batch that was full

    def __cinit__(self, *, int64_t batch_bytes_max, int64_t timestamp, base_offset=0,
                  int16_t attributes=0, int32_t leader_epoch=-1, int64_t producer_id=-1,
                  int16_t producer_epoch=-1, int32_t base_sequence=-1, compress=None):
        """Set the header fields of all batches.

        `attributes` are those of the batches; with a codec in them `compress` is called with the
        records of a batch as a memoryview, and returns bytes. With a base offset of None every row
        must have an offset. `timestamp` (ms) is that of rows without one.
        """
        if not BATCH_HEADER_SIZE < batch_bytes_max <= BATCH_SIZE_MAX:
            raise ValueError(f"batches of at most {batch_bytes_max} bytes: expected "
                             f"{BATCH_HEADER_SIZE + 1} to {BATCH_SIZE_MAX}")
        if (compress is None) != (attributes & ATTRIBUTE_CODEC == 0):
            raise ValueError("a codec and what compresses with it belong together")
        self.row.headers = &self.headers
        self.batch.limit = batch_bytes_max
        self.batch.timestamp = timestamp
        self.batch.keeps_offsets = base_offset is None
        self.batch.base_offset = 0 if base_offset is None else base_offset
        self.batch.size = BATCH_HEADER_SIZE
        self.info.magic = 2
        self.info.attributes = attributes
        self.info.leader_epoch = leader_epoch
        self.info.producer_id = producer_id
        self.info.producer_epoch = producer_epoch
        self.info.base_sequence = base_sequence
        self.compress = compress
        self.batches = []
        self.kept = []

    def __dealloc__(self):
        Py_XDECREF(self.buffer)
        free(self.headers.items)

    def append_columns(self, ColumnSource source not None):
        """Append every row of the columns."""
        cdef Columns columns = source.columns
        cdef SourceStatus source_status = SOURCE_READ
        cdef PutStatus put_status = PUT_DONE
        cdef int64_t number = 0, before
        if columns.count == 0:
            return
        if self.batch.keeps_offsets and columns.offsets == NULL:
            raise ValueError("no column named offset to keep the offsets of")
        self.enter()
        try:
            while number < columns.count:
                before = number
                with nogil:
                    number = put_rows(
                        &self.batch, &columns, number, &self.row, &source_status, &put_status)
                self.row_number += number - before
                if source_status != SOURCE_READ:
                    raise source_error(source_status, self.row_number)
                if put_status != PUT_DONE:
                    self.make_room(put_status, guess(&columns, number))
        finally:
            self.is_busy = False

    def append_rows(self, rows):
        """Append values (bytes) or tuples: (key, value[, headers[, timestamp in ms]])."""
        cdef PutStatus put_status
        if self.batch.keeps_offsets:
            raise ValueError("rows of Python have no offsets to keep: expected a base offset")
        self.enter()
        try:
            for item in rows:
                self.row.has_timestamp = False
                self.headers.count = 0
                if take_plain(&self.row.value, <PyObject*>item):
                    self.row.key.size = -1
                else:
                    self.take_row(item)
                put_status = put_row(&self.batch, &self.row)
                while put_status != PUT_DONE:
                    self.make_room(put_status, 0)
                    put_status = put_row(&self.batch, &self.row)
                self.row_number += 1
        finally:
            self.kept.clear()
            self.is_busy = False

    def finish(self):
        """Return all batches; the next row begins a new one."""
        self.enter()
        try:
            if self.batch.record_count:
                self.finish_batch()
        finally:
            self.is_busy = False
        batches = self.batches
        self.batches = []
        return batches

    cdef int enter(self) except -1:
        # The iteration of rows and `compress` are Python code, which may call this encoder.
        if self.is_busy:
            raise RuntimeError("this encoder is already in use")
        self.is_busy = True
        return 0

    # ---- rows of Python objects ------------------------------------------------------------------

    cdef int take_row(self, object item) except -1:
        """Point the row at an object's content, which stays alive until the row has been put."""
        cdef tuple parts
        cdef Py_ssize_t count
        if self.kept:
            self.kept.clear()
        if not PyTuple_Check(item):
            self.take_content(&self.row.value, item, "a value")
            self.row.key.size = -1
            return 0
        parts = <tuple>item
        count = len(parts)
        if not 2 <= count <= 4:
            raise ValueError(f"row {self.row_number}: expected (key, value[, headers[, timestamp]])"
                             f", got a tuple of {count}")
        if not take_plain(&self.row.key, item_of(<PyObject*>item, 0)):
            self.take_content(&self.row.key, parts[0], "a key")
        if not take_plain(&self.row.value, item_of(<PyObject*>item, 1)):
            self.take_content(&self.row.value, parts[1], "a value")
        if count > 2 and parts[2] is not None:
            self.take_headers(parts[2])
        if count > 3 and parts[3] is not None:
            try:
                self.row.timestamp = parts[3]
            except OverflowError:
                raise ValueError(f"row {self.row_number}: a timestamp of {parts[3]}") from None
            self.row.has_timestamp = True
        return 0

    cdef int take_headers(self, object headers) except -1:
        cdef tuple pairs = tuple(headers)
        cdef tuple pair
        cdef Py_ssize_t count = len(pairs), i
        if not headers_reserve(&self.headers, count):
            raise MemoryError
        for i in range(count):
            pair = tuple(pairs[i])
            if len(pair) != 2:
                raise ValueError(f"row {self.row_number}: expected (key, value) as a header, got a "
                                 f"tuple of {len(pair)}")
            self.kept.append(pair)
            name = pair[0]
            if PyUnicode_Check(name):
                name = name.encode()
                self.kept.append(name)
            self.take_content(&self.headers.items[i].key, name, "the key of a header")
            if self.headers.items[i].key.size < 0:
                raise ValueError(f"row {self.row_number}: a header has no key")
            self.take_content(&self.headers.items[i].value, pair[1], "the value of a header")
        self.headers.count = count
        return 0

    cdef int take_content(self, Content* content, object thing, str what) except -1:
        if take_plain(content, <PyObject*>thing):
            return 0
        if not PyBytes_Check(thing):
            if not isinstance(thing, (bytearray, memoryview)):
                raise TypeError(f"row {self.row_number}: expected bytes or None as {what}, got "
                                f"{type(thing).__name__}")
            thing = bytes(thing)
            self.kept.append(thing)
        content.data = <const uint8_t*>PyBytes_AS_STRING(thing)
        content.size = PyBytes_GET_SIZE(thing)
        return 0

    # ---- batches ---------------------------------------------------------------------------------

    cdef int make_room(self, PutStatus status, int64_t guessed) except -1:
        """Make room for a row that was not put; `guessed` estimates the bytes of all rows left."""
        if status == PUT_TOO_LARGE:
            raise LimitExceeded(f"row {self.row_number}: a batch of {self.batch.needed} bytes or "
                                f"more, allowed are {self.batch.limit}")
        if status == PUT_BACKWARDS:
            raise Corrupt(f"row {self.row_number}: offset {self.row.offset} after "
                          f"{self.batch.last_offset}")
        if status == PUT_FULL:
            self.full_size = self.batch.size
            self.finish_batch()
            self.batch.needed = self.batch.size
        if status == PUT_GROW or self.buffer == NULL:
            self.grow((guessed or self.full_size) + self.batch.size)
        return 0

    cdef int grow(self, int64_t capacity) except -1:
        cdef Batch* batch = &self.batch
        capacity = max(capacity, batch.needed, 2 * batch.capacity, CAPACITY_MIN)
        capacity = min(capacity, batch.limit)
        if capacity >= MAPPED_MIN:
            keep_large_memory()
        if self.buffer != NULL:
            return self.resize(capacity)
        self.buffer = new_bytes(NULL, <Py_ssize_t>capacity)
        batch.bytes = <uint8_t*>PyBytes_AS_STRING(<object>self.buffer)
        batch.capacity = capacity
        return 0

    cdef int resize(self, int64_t size) except -1:
        try:
            _PyBytes_Resize(&self.buffer, <Py_ssize_t>size)
        except MemoryError:
            self.begin_batch()    # the old buffer is freed as well
            raise
        self.batch.bytes = <uint8_t*>PyBytes_AS_STRING(<object>self.buffer)
        self.batch.capacity = size
        return 0

    cdef int finish_batch(self) except -1:
        cdef Batch* batch = &self.batch
        cdef bytes whole = None
        if self.compress is not None:
            whole = self.compressed()
        if Py_REFCNT(self.buffer) != 1:
            self.disown()
        if whole is None:
            self.resize(batch.size)
            self.complete(batch.bytes, batch.size, self.info.attributes & ~<int>ATTRIBUTE_CODEC)
            whole = <bytes>self.buffer
            Py_XDECREF(self.buffer)
            self.buffer = NULL
        self.batches.append(whole)
        self.begin_batch()
        return 0

    cdef bytes compressed(self):
        """Return the batch with its records compressed; None if it would be above the limit."""
        cdef bytes whole
        cdef bytes records = self.compress(
            memoryview(<object>self.buffer)[BATCH_HEADER_SIZE:self.batch.size])
        cdef int64_t size = BATCH_HEADER_SIZE + PyBytes_GET_SIZE(records)
        if size > self.batch.limit:
            return None
        whole = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
        memcpy(PyBytes_AS_STRING(whole) + BATCH_HEADER_SIZE, PyBytes_AS_STRING(records),
               <size_t>(size - BATCH_HEADER_SIZE))
        self.complete(<uint8_t*>PyBytes_AS_STRING(whole), size, self.info.attributes)
        return whole

    cdef int disown(self) except -1:
        """Continue with a copy: `compress` has kept a view of the batch."""
        cdef PyObject* copy = new_bytes(<const char*>self.batch.bytes,
                                        <Py_ssize_t>self.batch.capacity)
        Py_XDECREF(self.buffer)
        self.buffer = copy
        self.batch.bytes = <uint8_t*>PyBytes_AS_STRING(<object>copy)
        return 0

    cdef void complete(self, uint8_t* head, int64_t size, int attributes) noexcept:
        """Fill in the header of a batch."""
        cdef Batch* batch = &self.batch
        cdef BatchInfo info = self.info
        info.size = <size_t>size
        info.attributes = <int16_t>attributes
        info.base_offset = batch.base_offset
        info.last_offset_delta = <int32_t>(batch.last_offset - batch.base_offset)
        info.base_timestamp = batch.base_timestamp
        info.max_timestamp = (
            batch.timestamp if attributes & ATTRIBUTE_LOG_APPEND_TIME else batch.max_timestamp)
        info.record_count = batch.record_count
        batch_store_header(head, &info)

    cdef void begin_batch(self) noexcept:
        cdef Batch* batch = &self.batch
        if batch.has_last_offset:
            batch.base_offset = <int64_t>(<uint64_t>batch.last_offset + 1)
        if self.info.base_sequence >= 0:
            self.info.base_sequence = <int32_t>(
                (<int64_t>self.info.base_sequence + batch.record_count) % SEQUENCES)
        if self.buffer == NULL:
            batch.bytes = NULL
            batch.capacity = 0
        batch.size = BATCH_HEADER_SIZE
        batch.record_count = 0


cdef inline bint take_plain(Content* content, PyObject* thing) noexcept:
    """Point at bytes or None; return False for any other type."""
    if is_plain_bytes(thing):
        content.data = <const uint8_t*>bytes_of(thing)
        content.size = size_of(thing)
        return True
    content.size = -1
    return thing == <PyObject*>None


cdef int64_t guess(const Columns* columns, int64_t number) noexcept:
    """Estimate how many bytes the rows from `number` on will take."""
    cdef int64_t rows = columns.count - number
    cdef int64_t content = columns.keys.data_size + columns.values.data_size
    return rows * RECORD_OVERHEAD + <int64_t>(<double>content * rows / columns.count)
