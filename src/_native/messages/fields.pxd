"""Fields of Kafka's messages in both encodings, plain and flexible (KIP-482).

Header only.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from broker._native.kernel.big_endian cimport store_uint16, store_uint32
from broker._native.kernel.cursor cimport (
    READ_DONE,
    Cursor,
    cursor_int16,
    cursor_int32,
    cursor_take,
    cursor_unsigned_varint,
)

cdef enum:
    TAGS_MAX = 64            # tagged fields of one structure
    STRING_MAX = 32767       # bytes of a string, compact or not
    TOPIC_ID_SIZE = 16


cdef inline bint read_tag_count(Cursor* cursor, uint32_t* count) noexcept nogil:
    """Read how many tagged fields follow; return False if they are too many."""
    return cursor_unsigned_varint(cursor, count) == READ_DONE and count[0] <= TAGS_MAX


cdef inline bint read_tag(Cursor* cursor, uint32_t* tag, Cursor* field) noexcept nogil:
    """Read a tagged field; return False if it is cut short."""
    cdef uint32_t size = 0
    if (cursor_unsigned_varint(cursor, tag) != READ_DONE
            or cursor_unsigned_varint(cursor, &size) != READ_DONE):
        return False
    field.left = size
    field.next = cursor_take(cursor, size)
    return field.next != NULL


cdef inline bint read_tags(Cursor* cursor, bint is_flexible) noexcept nogil:
    """Step over a structure's tagged fields, if any; return False if they are malformed."""
    cdef uint32_t count = 0, tag = 0, _i
    cdef Cursor field
    if not is_flexible:
        return True
    if not read_tag_count(cursor, &count):
        return False
    for _i in range(count):
        if not read_tag(cursor, &tag, &field):
            return False
    return True


cdef inline bint read_count(Cursor* cursor, bint is_flexible, int32_t* count) noexcept nogil:
    """Read an array's length, -1 for null; return False if the frame cannot hold so many."""
    cdef uint32_t compact = 0
    if is_flexible:
        if cursor_unsigned_varint(cursor, &compact) != READ_DONE or compact > 0x7FFFFFFF:
            return False
        count[0] = <int32_t>compact - 1
    elif cursor_int32(cursor, count) != READ_DONE:
        return False
    return count[0] >= -1 and count[0] <= <int64_t>cursor.left


cdef inline bint read_string(Cursor* cursor, bint is_flexible, const uint8_t** text,
                             int32_t* size) noexcept nogil:
    """Read a nullable string; size -1 for null. Return False if it is cut short or too long."""
    cdef uint32_t compact = 0
    cdef int16_t plain = 0
    if is_flexible:
        if cursor_unsigned_varint(cursor, &compact) != READ_DONE or compact > STRING_MAX + 1:
            return False
        size[0] = <int32_t>compact - 1
    else:
        if cursor_int16(cursor, &plain) != READ_DONE or plain < -1:
            return False
        size[0] = plain
    text[0] = NULL
    if size[0] < 0:
        return True
    text[0] = cursor_take(cursor, <size_t>size[0])
    return text[0] != NULL


cdef inline bint read_records(Cursor* cursor, bint is_flexible, const uint8_t** data,
                              int32_t* size) noexcept nogil:
    """Read nullable bytes; size -1 for null. Return False if they are cut short."""
    cdef uint32_t compact = 0
    if is_flexible:
        if cursor_unsigned_varint(cursor, &compact) != READ_DONE or compact > 0x7FFFFFFF:
            return False
        size[0] = <int32_t>compact - 1
    elif cursor_int32(cursor, size) != READ_DONE or size[0] < -1:
        return False
    data[0] = NULL
    if size[0] < 0:
        return True
    data[0] = cursor_take(cursor, <size_t>size[0])
    return data[0] != NULL


cdef inline uint8_t* put_compact(uint8_t* at, uint32_t value) noexcept nogil:
    """Write a varint in as few bytes as it takes."""
    while value >= 0x80:
        at[0] = <uint8_t>(value | 0x80)
        value >>= 7
        at += 1
    at[0] = <uint8_t>value
    return at + 1


cdef inline uint8_t* put_count(uint8_t* at, bint is_flexible, uint32_t count) noexcept nogil:
    """Write an array's length: at most five bytes."""
    if is_flexible:
        return put_compact(at, count + 1)
    store_uint32(at, count)
    return at + 4


cdef inline uint8_t* put_tags(uint8_t* at, bint is_flexible) noexcept nogil:
    """Write that there are no tagged fields, in flexible versions."""
    if not is_flexible:
        return at
    at[0] = 0
    return at + 1


cdef inline uint8_t* put_string(
        uint8_t* at, bint is_flexible, const uint8_t* text, uint32_t size) noexcept nogil:
    """Write a string that is not null: at most five bytes more than its size."""
    if is_flexible:
        at = put_compact(at, size + 1)
    else:
        store_uint16(at, size)
        at += 2
    memcpy(at, text, size)
    return at + size
