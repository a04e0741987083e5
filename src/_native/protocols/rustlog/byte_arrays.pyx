"""JSON arrays of byte values, numbers from 0 to 255: `[98,121,116,101,115]`.

`JsonRecords` extracts an array of such arrays from a request; the rest of the request is small and
is parsed by the caller. The extracted records have the layout of RustLog's binary form: for each a
uint32 length and its bytes (record_run.pyx). Numbers are JSON's (RFC 8259), without sign, fraction,
exponent or leading zero.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.kernel.cursor cimport Cursor, cursor_take
from broker._native.kernel.decimal cimport DECIMAL_SIZE_MAX, store_unsigned

from broker.model.errors import Corrupt, LimitExceeded

cdef enum:
    QUOTE = 0x22
    COMMA = 0x2C
    COLON = 0x3A
    OPEN_LIST = 0x5B
    BACKSLASH = 0x5C
    CLOSE_LIST = 0x5D
    OPEN_OBJECT = 0x7B
    CLOSE_OBJECT = 0x7D
    ZERO = 0x30
    # A number, the comma after it, and the byte that shows it has no more digits: read unchecked.
    LOOKAHEAD_SIZE = 4
    LENGTH_SIZE = 4
    FIELD_DEPTH = 2           # of `records` in {"Produce":{"records":..}}

cdef enum State:
    IN_ENVELOPE
    BEFORE_FIRST_ARRAY        # after the [ of the records
    BEFORE_ARRAY              # after a comma
    AFTER_ARRAY
    BEFORE_FIRST_BYTE         # after the [ of a record
    BEFORE_BYTE               # after a comma
    AFTER_BYTE

cdef const char* FIELD = b"records"
cdef uint8_t byte_texts[256][4]
cdef uint8_t byte_text_sizes[256]

for _value in range(256):
    _text = b"%d," % _value
    byte_text_sizes[_value] = <uint8_t>len(_text)
    for _place in range(len(_text)):
        byte_texts[_value][_place] = _text[_place]


# ---- writing ------------------------------------------------------------------------------------

cdef uint8_t* put_byte_array(uint8_t* at, const uint8_t* data, size_t size) noexcept nogil:
    """Write bytes as an array where 2 + BYTE_SIZE_MAX * size bytes are free."""
    cdef size_t i
    at[0] = OPEN_LIST
    at += 1
    for i in range(size):
        memcpy(at, byte_texts[data[i]], BYTE_SIZE_MAX)
        at += byte_text_sizes[data[i]]
    if size > 0:
        at -= 1               # the last comma
    at[0] = CLOSE_LIST
    return at + 1


def ascending(uint64_t first, size_t count):
    """Return the JSON text of an array of `count` numbers that count up from `first`."""
    cdef uint8_t* text = <uint8_t*>malloc(2 + count * (DECIMAL_SIZE_MAX + 1))
    cdef uint8_t* at
    cdef size_t i
    if text == NULL:
        raise MemoryError
    try:
        text[0] = OPEN_LIST
        at = text + 1
        for i in range(count):
            at = store_unsigned(at, first + i)
            at[0] = COMMA
            at += 1
        if count > 0:
            at -= 1
        at[0] = CLOSE_LIST
        return PyBytes_FromStringAndSize(<const char*>text, at + 1 - text)
    finally:
        free(text)


def byte_array(bytes data not None):
    """Return the JSON text of bytes, as an array of numbers."""
    cdef size_t size = <size_t>PyBytes_GET_SIZE(data)
    cdef uint8_t* text = <uint8_t*>malloc(2 + size * BYTE_SIZE_MAX)
    cdef uint8_t* end
    if text == NULL:
        raise MemoryError
    try:
        end = put_byte_array(text, <const uint8_t*>PyBytes_AS_STRING(data), size)
        return PyBytes_FromStringAndSize(<const char*>text, end - text)
    finally:
        free(text)


# ---- reading ------------------------------------------------------------------------------------

cdef inline bint is_space(uint8_t byte) noexcept nogil:
    return byte == 0x20 or byte == 0x0A or byte == 0x0D or byte == 0x09


cdef inline void skip_spaces(Cursor* cursor) noexcept nogil:
    while cursor.left > 0 and is_space(cursor.next[0]):
        cursor_take(cursor, 1)


cdef inline int take_byte(Cursor* cursor) noexcept nogil:
    # Reads the number at the cursor; -1 if there is none from 0 to 255.
    cdef uint32_t value, digit
    cdef const uint8_t* text = cursor.next
    cdef size_t size = 1
    if cursor.left < LOOKAHEAD_SIZE:
        return take_last_byte(cursor)
    value = <uint32_t>text[0] - ZERO
    if value > 9:
        return -1
    digit = <uint32_t>text[1] - ZERO
    if digit <= 9:
        if value == 0:
            return -1
        value = value * 10 + digit
        size = 2
        digit = <uint32_t>text[2] - ZERO
        if digit <= 9:
            value = value * 10 + digit
            size = 3
            if value > 255 or <uint32_t>text[3] - ZERO <= 9:
                return -1
    cursor_take(cursor, size)
    return <int>value


cdef int take_last_byte(Cursor* cursor) noexcept nogil:
    # The same near the end of the body, where each digit is bounds-checked.
    cdef uint32_t value = 0, digit
    cdef int size = 0
    while cursor.left > 0:
        digit = <uint32_t>cursor.next[0] - ZERO
        if digit > 9:
            break
        if size > 0 and value == 0:
            return -1
        value = value * 10 + digit
        if value > 255:
            return -1
        cursor_take(cursor, 1)
        size += 1
    return <int>value if size > 0 else -1


@cython.final
cdef class JsonRecords:
    """Extracts the byte arrays of the field `records` from a JSON request, in steps.

    The field is one of an object inside the outermost object. In `envelope` a 0 replaces its array;
    if the field is missing or is not an array, the envelope is the whole request. Whether the
    envelope is JSON is not checked here: only strings are recognized, so that brackets in them do
    not count.
    """

    cdef bytes body
    cdef Cursor cursor
    cdef State state
    cdef uint8_t* envelope_data       # of at most envelope_max bytes
    cdef size_t envelope_size
    cdef size_t envelope_max
    cdef int depth
    cdef uint8_t* run_data            # the records, as `run` returns them
    cdef size_t run_size
    cdef uint8_t* length_at           # length of the record that is being read
    cdef readonly uint32_t count      # of records
    cdef readonly bint is_done

    def __cinit__(self, bytes body not None, size_t envelope_bytes_max):
        self.body = body
        self.cursor.next = <const uint8_t*>PyBytes_AS_STRING(body)
        self.cursor.left = <size_t>PyBytes_GET_SIZE(body)
        self.envelope_max = min(envelope_bytes_max, self.cursor.left + 1)
        self.envelope_data = <uint8_t*>malloc(self.envelope_max + 1)
        if self.envelope_data == NULL:
            raise MemoryError
        self.state = IN_ENVELOPE

    def __dealloc__(self):
        free(self.envelope_data)
        free(self.run_data)

    @property
    def envelope(self):
        """The request without its records."""
        return PyBytes_FromStringAndSize(
            <const char*>self.envelope_data, <Py_ssize_t>self.envelope_size)

    @property
    def has_records(self):
        """Whether the field exists and is an array."""
        return self.run_data != NULL

    @property
    def run(self):
        """The records: for each a uint32 length and its bytes."""
        return PyBytes_FromStringAndSize(<const char*>self.run_data, <Py_ssize_t>self.run_size)

    def step(self, size_t bytes_max):
        """Read about `bytes_max` bytes more; return True once the whole request has been read.

        Raises:
            Corrupt: the records are not an array of arrays of bytes.
            LimitExceeded: the request without its records is longer than allowed.
        """
        cdef size_t stop_at
        cdef bint is_good = True
        stop_at = self.cursor.left - bytes_max if bytes_max < self.cursor.left else 0
        while is_good and self.cursor.left > stop_at:
            if self.state == IN_ENVELOPE:
                if not self.read_envelope():
                    raise LimitExceeded(
                        f"expected at most {self.envelope_max} bytes beside the records")
                self.is_done = self.state == IN_ENVELOPE
            else:
                is_good = self.read_records(stop_at)
        if not is_good:
            raise Corrupt("records: not an array of arrays of bytes", self.position())
        if self.cursor.left == 0:
            if self.state != IN_ENVELOPE:
                raise Corrupt("records: the array does not end", self.position())
            self.is_done = True
        return self.is_done

    cdef Py_ssize_t position(self):
        return PyBytes_GET_SIZE(self.body) - <Py_ssize_t>self.cursor.left

    cdef bint put_envelope(self, const uint8_t* data, size_t size) noexcept:
        if size > self.envelope_max - self.envelope_size:
            return False
        memcpy(self.envelope_data + self.envelope_size, data, size)
        self.envelope_size += size
        return True

    cdef bint read_envelope(self):
        # Reads up to the records or the end of the request. False: the envelope is too long.
        cdef const uint8_t* start
        cdef uint8_t byte
        while self.cursor.left > 0:
            start = self.cursor.next
            byte = cursor_take(&self.cursor, 1)[0]
            if byte == OPEN_OBJECT or byte == OPEN_LIST:
                self.depth += 1
            elif byte == CLOSE_OBJECT or byte == CLOSE_LIST:
                self.depth -= 1
            elif byte == QUOTE:
                self.skip_string()
            if not self.put_envelope(start, <size_t>(self.cursor.next - start)):
                return False
            if byte == QUOTE and self.depth == FIELD_DEPTH and self.is_field(start):
                if self.enter_records():
                    return self.put_envelope(b"0", 1)
        return True

    cdef void skip_string(self) noexcept:
        cdef uint8_t byte
        while self.cursor.left > 0:
            byte = cursor_take(&self.cursor, 1)[0]
            if byte == BACKSLASH:
                cursor_take(&self.cursor, 1)
            elif byte == QUOTE:
                return

    cdef bint is_field(self, const uint8_t* start) noexcept:
        cdef size_t size = <size_t>(self.cursor.next - start)
        return size == 9 and memcmp(start + 1, FIELD, 7) == 0

    cdef bint enter_records(self) except *:
        # Steps over the colon and the [. Does nothing if the value is not an array.
        cdef Cursor ahead = self.cursor
        cdef const uint8_t* colon
        skip_spaces(&ahead)
        colon = cursor_take(&ahead, 1)
        if colon == NULL or colon[0] != COLON:
            return False
        skip_spaces(&ahead)
        if ahead.left == 0 or ahead.next[0] != OPEN_LIST:
            return False
        if not self.put_envelope(b":", 1):
            return False
        cursor_take(&ahead, 1)
        if self.run_data == NULL:
            # An array takes at least three bytes, `[],`, and becomes four; a byte takes at least
            # two, `1,`, and becomes one.
            self.run_data = <uint8_t*>malloc(self.cursor.left // 3 * 4 + 2 * LENGTH_SIZE)
            if self.run_data == NULL:
                raise MemoryError
        # A second field of this name is detected by the parser of the envelope.
        self.run_size = 0
        self.count = 0
        self.cursor = ahead
        self.state = BEFORE_FIRST_ARRAY
        return True

    cdef bint read_records(self, size_t stop_at) noexcept:
        # Reads until the array has ended or `stop_at` bytes are left. False: it is malformed.
        cdef Cursor cursor = self.cursor
        cdef uint8_t* into = self.run_data + self.run_size
        cdef State state = self.state
        cdef int value
        cdef uint8_t byte
        while cursor.left > stop_at and state != IN_ENVELOPE:
            if state == BEFORE_BYTE or state == BEFORE_FIRST_BYTE:
                value = take_byte(&cursor)
                while value >= 0:
                    into[0] = <uint8_t>value
                    into += 1
                    if cursor.left <= stop_at or cursor.next[0] != COMMA:
                        state = AFTER_BYTE
                        break
                    cursor_take(&cursor, 1)
                    state = BEFORE_BYTE
                    value = take_byte(&cursor)
                if state == AFTER_BYTE or cursor.left == 0:
                    continue
            byte = cursor_take(&cursor, 1)[0]
            if is_space(byte):
                continue
            if byte == OPEN_LIST and (state == BEFORE_ARRAY or state == BEFORE_FIRST_ARRAY):
                self.length_at = into
                into += LENGTH_SIZE
                state = BEFORE_FIRST_BYTE
            elif byte == CLOSE_LIST and (state == AFTER_BYTE or state == BEFORE_FIRST_BYTE):
                store_uint32(self.length_at, <uint32_t>(into - self.length_at - LENGTH_SIZE))
                self.count += 1
                state = AFTER_ARRAY
            elif byte == CLOSE_LIST and (state == AFTER_ARRAY or state == BEFORE_FIRST_ARRAY):
                state = IN_ENVELOPE
            elif byte == COMMA and state == AFTER_ARRAY:
                state = BEFORE_ARRAY
            elif byte == COMMA and state == AFTER_BYTE:
                state = BEFORE_BYTE
            else:
                self.cursor = cursor
                return False
        self.cursor = cursor
        self.run_size = <size_t>(into - self.run_data)
        self.state = state
        return True
