"""Decimal digits of integers: unchecked stores, into memory that is large enough, and parsing.

Header only, like the cursor.
"""

from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

cdef enum:
    DECIMAL_SIZE_MAX = 20     # digits of a uint64, or of an int64 with its sign


cdef inline uint8_t* store_unsigned(uint8_t* into, uint64_t number) noexcept nogil:
    """Write a number, in at most DECIMAL_SIZE_MAX bytes; return its end."""
    cdef uint8_t digits[DECIMAL_SIZE_MAX]
    cdef size_t first = DECIMAL_SIZE_MAX
    while True:
        first -= 1
        digits[first] = <uint8_t>(c"0" + number % 10)
        number //= 10
        if number == 0:
            break
    memcpy(into, digits + first, DECIMAL_SIZE_MAX - first)
    return into + DECIMAL_SIZE_MAX - first


cdef inline uint8_t* store_signed(uint8_t* into, int64_t number) noexcept nogil:
    """Write a number with a minus if it is negative; bytes and result as of `store_unsigned`."""
    if number >= 0:
        return store_unsigned(into, <uint64_t>number)
    into[0] = c"-"
    return store_unsigned(into + 1, 0 - <uint64_t>number)


cdef inline bint parse_digits(
        const uint8_t* digits, size_t size, uint64_t highest, uint64_t* number) noexcept nogil:
    """Parse digits, none being 0; return False for other bytes, or a number above `highest`."""
    cdef uint64_t digit
    cdef size_t i
    number[0] = 0
    for i in range(size):
        if not c"0" <= digits[i] <= c"9":
            return False
        digit = digits[i] - c"0"
        if number[0] > highest // 10 or 10 * number[0] > highest - digit:
            return False
        number[0] = 10 * number[0] + digit
    return True
