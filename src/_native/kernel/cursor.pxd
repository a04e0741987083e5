"""Bounds-checked reads of untrusted bytes; every parser uses them.

A Cursor is a pointer and the number of bytes left. Every read goes through `cursor_take`, the only
place that compares a length with the bytes left. The `cursor_*` readers return a ReadStatus and
store the value only when it is READ_DONE; the `load_*` and `granted_*` functions read from a
pointer whose bounds were already checked. Fixed-size integers are big-endian; varints are those of
Kafka's protocol guide ("Protocol Primitive Types"): seven bits per byte, lowest first, zigzag where
signed.

Header only: it is compiled into each module that cimports it, so no module depends on another at
run time.
"""

from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)


cdef struct Cursor:
    const uint8_t* next
    size_t left


cdef enum ReadStatus:
    READ_DONE = 0
    READ_SHORT = -1      # fewer bytes are left than the value needs
    READ_OVERLONG = -2   # a varint that does not fit its type


cdef inline const uint8_t* cursor_take(Cursor* cursor, size_t size) noexcept nogil:
    """Return the next `size` bytes and step over them, or NULL when fewer are left."""
    cdef const uint8_t* taken = cursor.next
    if size > cursor.left:
        return NULL
    cursor.next += size
    cursor.left -= size
    return taken


# ---- unchecked loads, for bytes that cursor_take granted ---------------------------------------

cdef inline uint16_t load_uint16(const uint8_t* bytes) noexcept nogil:
    return <uint16_t>((<uint32_t>bytes[0] << 8) | bytes[1])


cdef inline uint32_t load_uint32(const uint8_t* bytes) noexcept nogil:
    # gcc and clang compile this to one load and one byte swap, whatever the alignment.
    return ((<uint32_t>bytes[0] << 24) | (<uint32_t>bytes[1] << 16)
            | (<uint32_t>bytes[2] << 8) | <uint32_t>bytes[3])


cdef inline uint64_t load_uint64(const uint8_t* bytes) noexcept nogil:
    return ((<uint64_t>bytes[0] << 56) | (<uint64_t>bytes[1] << 48)
            | (<uint64_t>bytes[2] << 40) | (<uint64_t>bytes[3] << 32)
            | (<uint64_t>bytes[4] << 24) | (<uint64_t>bytes[5] << 16)
            | (<uint64_t>bytes[6] << 8) | <uint64_t>bytes[7])


cdef inline int16_t load_int16(const uint8_t* bytes) noexcept nogil:
    return <int16_t>load_uint16(bytes)


cdef inline int32_t load_int32(const uint8_t* bytes) noexcept nogil:
    return <int32_t>load_uint32(bytes)


cdef inline int64_t load_int64(const uint8_t* bytes) noexcept nogil:
    return <int64_t>load_uint64(bytes)


# ---- checked readers ---------------------------------------------------------------------------

cdef inline ReadStatus cursor_int8(Cursor* cursor, int8_t* value) noexcept nogil:
    cdef const uint8_t* bytes = cursor_take(cursor, 1)
    if bytes == NULL:
        return READ_SHORT
    value[0] = <int8_t>bytes[0]
    return READ_DONE


cdef inline ReadStatus cursor_uint8(Cursor* cursor, uint8_t* value) noexcept nogil:
    return cursor_int8(cursor, <int8_t*>value)


cdef inline ReadStatus cursor_int16(Cursor* cursor, int16_t* value) noexcept nogil:
    cdef const uint8_t* bytes = cursor_take(cursor, 2)
    if bytes == NULL:
        return READ_SHORT
    value[0] = load_int16(bytes)
    return READ_DONE


cdef inline ReadStatus cursor_uint16(Cursor* cursor, uint16_t* value) noexcept nogil:
    return cursor_int16(cursor, <int16_t*>value)


cdef inline ReadStatus cursor_int32(Cursor* cursor, int32_t* value) noexcept nogil:
    cdef const uint8_t* bytes = cursor_take(cursor, 4)
    if bytes == NULL:
        return READ_SHORT
    value[0] = load_int32(bytes)
    return READ_DONE


cdef inline ReadStatus cursor_uint32(Cursor* cursor, uint32_t* value) noexcept nogil:
    return cursor_int32(cursor, <int32_t*>value)


cdef inline ReadStatus cursor_int64(Cursor* cursor, int64_t* value) noexcept nogil:
    cdef const uint8_t* bytes = cursor_take(cursor, 8)
    if bytes == NULL:
        return READ_SHORT
    value[0] = load_int64(bytes)
    return READ_DONE


# ---- varints -----------------------------------------------------------------------------------

cdef inline ReadStatus cursor_unsigned_varint(Cursor* cursor, uint32_t* value) noexcept nogil:
    """Read at most five bytes; bits above the 32nd are refused."""
    cdef uint32_t sum = 0
    cdef int shift = 0
    cdef const uint8_t* byte
    while shift < 35:
        byte = cursor_take(cursor, 1)
        if byte == NULL:
            return READ_SHORT
        if shift == 28 and byte[0] > 0x0F:
            return READ_OVERLONG
        sum |= <uint32_t>(byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            value[0] = sum
            return READ_DONE
        shift += 7
    return READ_OVERLONG


cdef inline ReadStatus cursor_unsigned_varlong(Cursor* cursor, uint64_t* value) noexcept nogil:
    """Read at most ten bytes; bits above the 64th are refused."""
    cdef uint64_t sum = 0
    cdef int shift = 0
    cdef const uint8_t* byte
    while shift < 70:
        byte = cursor_take(cursor, 1)
        if byte == NULL:
            return READ_SHORT
        if shift == 63 and byte[0] > 0x01:
            return READ_OVERLONG
        sum |= <uint64_t>(byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            value[0] = sum
            return READ_DONE
        shift += 7
    return READ_OVERLONG


cdef inline int32_t zigzag_decode32(uint32_t encoded) noexcept nogil:
    """Decode zigzag: 0, 1, 2, 3 are 0, -1, 1, -2."""
    return <int32_t>((encoded >> 1) ^ (~(encoded & 1) + 1))


cdef inline int64_t zigzag_decode64(uint64_t encoded) noexcept nogil:
    return <int64_t>((encoded >> 1) ^ (~(encoded & 1) + 1))


cdef inline ReadStatus cursor_varint(Cursor* cursor, int32_t* value) noexcept nogil:
    """Read a zigzag varint: 0, -1, 1, -2 are written 0, 1, 2, 3."""
    cdef uint32_t encoded = 0
    cdef ReadStatus status = cursor_unsigned_varint(cursor, &encoded)
    if status == READ_DONE:
        value[0] = zigzag_decode32(encoded)
    return status


cdef inline ReadStatus cursor_varlong(Cursor* cursor, int64_t* value) noexcept nogil:
    """Read a zigzag varint of 64 bits."""
    cdef uint64_t encoded = 0
    cdef ReadStatus status = cursor_unsigned_varlong(cursor, &encoded)
    if status == READ_DONE:
        value[0] = zigzag_decode64(encoded)
    return status


# ---- varints in bytes whose bounds were checked ------------------------------------------------
# For loops over records: one check covers all the varints of a record's head, and nearly all of
# them have one byte or two. With fewer bytes left, or for a longer varint, the readers above are
# used.

cdef enum:
    VARINT_SIZE_MAX = 5
    VARLONG_SIZE_MAX = 10


cdef inline int granted_varint(const uint8_t* bytes, int32_t* value) noexcept nogil:
    """Read a varint where VARINT_SIZE_MAX bytes were granted; return its size, 0 for overlong."""
    cdef uint32_t first = bytes[0]
    cdef Cursor cursor
    cdef int32_t longer = 0
    if first < 0x80:
        value[0] = zigzag_decode32(first)
        return 1
    if bytes[1] < 0x80:
        value[0] = zigzag_decode32((first & 0x7F) | (<uint32_t>bytes[1] << 7))
        return 2
    cursor.next = bytes
    cursor.left = VARINT_SIZE_MAX
    if cursor_varint(&cursor, &longer) != READ_DONE:
        return 0
    value[0] = longer
    return VARINT_SIZE_MAX - <int>cursor.left


cdef inline int granted_varlong(const uint8_t* bytes, int64_t* value) noexcept nogil:
    """Read a varlong where VARLONG_SIZE_MAX bytes were granted; return its size, 0 for overlong."""
    cdef uint32_t first = bytes[0]
    cdef Cursor cursor
    cdef int64_t longer = 0
    if first < 0x80:
        value[0] = zigzag_decode32(first)
        return 1
    if bytes[1] < 0x80:
        value[0] = zigzag_decode32((first & 0x7F) | (<uint32_t>bytes[1] << 7))
        return 2
    cursor.next = bytes
    cursor.left = VARLONG_SIZE_MAX
    if cursor_varlong(&cursor, &longer) != READ_DONE:
        return 0
    value[0] = longer
    return VARLONG_SIZE_MAX - <int>cursor.left
