"""Unchecked stores of fixed-size big-endian integers, into memory that is known to be large enough.
"""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t


cdef inline void store_uint16(uint8_t* into, uint16_t value) noexcept nogil:
    into[0] = <uint8_t>(value >> 8)
    into[1] = <uint8_t>value


cdef inline void store_uint32(uint8_t* into, uint32_t value) noexcept nogil:
    # gcc and clang compile this to one byte swap and one store, whatever the alignment.
    into[0] = <uint8_t>(value >> 24)
    into[1] = <uint8_t>(value >> 16)
    into[2] = <uint8_t>(value >> 8)
    into[3] = <uint8_t>value


cdef inline void store_uint64(uint8_t* into, uint64_t value) noexcept nogil:
    store_uint32(into, <uint32_t>(value >> 32))
    store_uint32(into + 4, <uint32_t>value)
