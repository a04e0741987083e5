"""Text of V1's lines: decimal numbers, and values, escaped where necessary.

In V1's CONSUME response records are separated by commas and fields by blanks. So a value cannot
contain commas, white space (as Go and the clients define it), control characters or invalid UTF-8
literally; nor `hw=`, since clients take what follows the first of them for the high watermark. In a
value that has one of these, each such byte is written as `%` and two hex digits, and so are `%` and
`=`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from broker._native.kernel.growing cimport text_put, text_reserve

cdef extern from "string.h" nogil:
    void* memmem(const void* data, size_t size, const void* wanted, size_t wanted_size)

cdef enum:
    ESCAPED_SIZE = 3
    COMMA = 0x2C
    EQUALS = 0x3D
    FIELD_SIZE = 3
    PERCENT = 0x25

cdef const uint8_t* HEX = <const uint8_t*>b"0123456789ABCDEF"


cdef inline bint is_tail(uint8_t byte) noexcept nogil:
    return byte & 0xC0 == 0x80


cdef size_t letter_size(const uint8_t* data, size_t left) noexcept nogil:
    """Return the size of the multi-byte UTF-8 character that begins here; 0 if it is invalid."""
    cdef uint8_t lead = data[0]
    if lead < 0xC2 or lead > 0xF4 or left < 2 or not is_tail(data[1]):
        return 0
    if lead < 0xE0:
        return 2
    if left < 3 or not is_tail(data[2]):
        return 0
    if lead < 0xF0:
        # Neither overlong nor a surrogate.
        if (lead == 0xE0 and data[1] < 0xA0) or (lead == 0xED and data[1] >= 0xA0):
            return 0
        return 3
    if left < 4 or not is_tail(data[3]):
        return 0
    if (lead == 0xF0 and data[1] < 0x90) or (lead == 0xF4 and data[1] >= 0x90):
        return 0
    return 4


cdef size_t wide_space_size(const uint8_t* data, size_t left) noexcept nogil:
    """Return the size of the non-ASCII white space that begins here (unicode.IsSpace); 0: none."""
    cdef uint8_t last
    if left < 2:
        return 0
    if data[0] == 0xC2:
        return 2 if data[1] == 0x85 or data[1] == 0xA0 else 0
    if left < 3:
        return 0
    last = data[2]
    if data[0] == 0xE1:
        return 3 if data[1] == 0x9A and last == 0x80 else 0
    if data[0] == 0xE3:
        return 3 if data[1] == 0x80 and last == 0x80 else 0
    if data[0] != 0xE2:
        return 0
    if data[1] == 0x80:
        return 3 if last <= 0x8A or last == 0xA8 or last == 0xA9 or last == 0xAF else 0
    return 3 if data[1] == 0x81 and last == 0x9F else 0


cdef bint has_white_space(const uint8_t* data, size_t size) noexcept nogil:
    """Return whether a text has white space, as Go's strings.Fields defines it."""
    cdef uint8_t odd = 0
    cdef size_t i
    for i in range(size):          # no early exit, so that it is vectorized
        odd |= (data[i] <= 0x20) | (data[i] >= 0x80)
    if not odd:
        return False
    for i in range(size):
        if data[i] == 0x20 or 0x09 <= data[i] <= 0x0D or wide_space_size(data + i, size - i) > 0:
            return True
    return False


cdef inline bint is_literal(uint8_t byte) noexcept nogil:
    return 0x20 < byte < 0x7F and byte != COMMA


cdef size_t step_over(const uint8_t* data, size_t left, size_t* to_escape) noexcept nogil:
    # Returns the size of the character that begins here. `to_escape`: its size, or 0 for a literal
    # one.
    cdef size_t size = 1
    if is_literal(data[0]):
        to_escape[0] = 0
        return 1
    if data[0] >= 0x80:
        size = letter_size(data, left)
        if size > 0 and wide_space_size(data, left) == 0:
            to_escape[0] = 0
            return size
        size = max(size, 1)
    to_escape[0] = size
    return size


cdef bint needs_escaping(const uint8_t* value, size_t size) noexcept nogil:
    cdef uint8_t odd = 0
    cdef size_t i, to_escape = 0
    for i in range(size):
        odd |= (value[i] <= 0x20) | (value[i] >= 0x7F) | (value[i] == COMMA) | (
            value[i] == EQUALS)
    if not odd:
        return False
    if memmem(value, size, b"hw=", FIELD_SIZE) != NULL:
        return True
    i = 0
    while i < size:
        i += step_over(value + i, size - i, &to_escape)
        if to_escape > 0:
            return True
    return False


cdef bint value_put(Text* text, const uint8_t* value, size_t size, bint* is_escaped) noexcept nogil:
    """Append a value, escaped if necessary; return False without memory."""
    cdef size_t i = 0, step, to_escape = 0, byte
    cdef uint8_t* at
    is_escaped[0] = needs_escaping(value, size)
    if not is_escaped[0]:
        return text_put(text, value, size)
    if not text_reserve(text, ESCAPED_SIZE * size):
        return False
    at = text.data + text.size
    while i < size:
        step = step_over(value + i, size - i, &to_escape)
        if to_escape == 0 and value[i] != PERCENT and value[i] != EQUALS:
            memcpy(at, value + i, step)
            at += step
        else:
            for byte in range(i, i + step):
                at[0] = PERCENT
                at[1] = HEX[value[byte] >> 4]
                at[2] = HEX[value[byte] & 0x0F]
                at += ESCAPED_SIZE
        i += step
    text.size = <size_t>(at - text.data)
    return True


def escape_value(bytes value not None):
    """Return a value as a line contains it, and whether it was escaped."""
    cdef Text text
    cdef bint is_escaped = False
    memset(&text, 0, sizeof(Text))
    try:
        if not value_put(&text, <const uint8_t*>PyBytes_AS_STRING(value),
                         <size_t>PyBytes_GET_SIZE(value), &is_escaped):
            raise MemoryError
        if not is_escaped:
            return value, False
        return PyBytes_FromStringAndSize(<const char*>text.data, <Py_ssize_t>text.size), True
    finally:
        free(text.data)
