"""Unchecked stores of varints, into memory that is large enough by `varint_size`.

Seven bits per byte, lowest first; signed numbers are zigzag-encoded: 0, -1, 1, -2 are stored as
0, 1, 2, 3 (Kafka protocol guide, "Protocol Primitive Types"). A varint is never longer than needed.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef extern from *:
    int count_leading_zeros "__builtin_clzll"(unsigned long long value) noexcept nogil
    bint unlikely(bint condition) noexcept nogil   # moves the branch out of the hot path

cdef enum:
    VARINT_BITS = 7
    VARINT_CONTINUED = 0x80


cdef inline uint64_t zigzag(int64_t value) noexcept nogil:
    return (<uint64_t>value << 1) ^ <uint64_t>(value >> 63)


cdef inline int64_t varint_size(uint64_t value) noexcept nogil:
    """Return how many bytes the value takes, 1 to 10."""
    # Lengths and differences are short: two well-predicted branches cost less than counting bits.
    if value < 1 << VARINT_BITS:
        return 1
    if unlikely(value >= 1 << 2 * VARINT_BITS):
        # The index of the highest bit divided by seven, plus one, without a division.
        return ((63 ^ count_leading_zeros(value)) * 9 + 73) >> 6
    return 2


cdef inline uint8_t* store_varint(uint8_t* into, uint64_t value) noexcept nogil:
    """Store the value; return where the next byte goes."""
    if value < 1 << VARINT_BITS:
        into[0] = <uint8_t>value
        return into + 1
    if unlikely(value >= 1 << 2 * VARINT_BITS):
        return store_long_varint(into, value)
    into[0] = <uint8_t>(value | VARINT_CONTINUED)
    into[1] = <uint8_t>(value >> VARINT_BITS)
    return into + 2


cdef inline uint8_t* store_long_varint(uint8_t* into, uint64_t value) noexcept nogil:
    while value >= VARINT_CONTINUED:
        into[0] = <uint8_t>(value | VARINT_CONTINUED)
        value >>= VARINT_BITS
        into += 1
    into[0] = <uint8_t>value
    return into + 1
