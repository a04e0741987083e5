"""CRC-32C (Castagnoli), the checksum of Kafka's record batches (RFC 3720 B.4)."""

from libc.stdint cimport uint8_t, uint32_t

from broker._native.kernel.checksum cimport (
    checksum_by, checksum_names, checksum_of, crc_implementation,
)


cdef extern from "kernel/crc32c_hardware.h" nogil:
    void c_init "crc32c_init"()
    uint32_t c_extend "crc32c_extend"(uint32_t crc, const uint8_t* data, size_t size)
    const crc_implementation* c_implementations "crc32c_implementations"()


c_init()


cdef uint32_t crc32c_extend(uint32_t crc, const uint8_t* data, size_t size) noexcept nogil:
    return c_extend(crc, data, size)


def crc32c(data, uint32_t crc=0):
    """Return the CRC-32C of a bytes-like object, continuing from the CRC of what stood before.

    Raises:
        TypeError, BufferError: no bytes-like object, or one in pieces.
        OverflowError: a `crc` that is not a number of 32 bits.

    Example:
        >>> hex(crc32c(b"123456789"))
        '0xe3069283'
        >>> hex(crc32c(b"6789", crc32c(b"12345")))
        '0xe3069283'
    """
    return checksum_of(c_extend, data, crc)


def implementations():
    """Return the names of what this processor can run, the one in use first, "table" last."""
    return checksum_names(c_implementations())


def crc32c_by(str implementation, data, uint32_t crc=0):
    """Return the same by one of `implementations()`; ValueError when it is not among them."""
    return checksum_by(c_implementations(), implementation, data, crc)
