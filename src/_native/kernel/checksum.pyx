"""The checksums of Kafka's formats, in the fastest implementation that the processor supports.

CRC-32 (IEEE 802.3) covers messages of magic 0 and 1; it is also zlib's. CRC-32C (Castagnoli,
RFC 3720 B.4) covers record batches.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t


cdef extern from "kernel/crc_polynomial.h" nogil:
    ctypedef uint32_t crc_function(uint32_t crc, const uint8_t* data, size_t size)

    struct crc_implementation:
        const char* name
        crc_function* extend

cdef extern from "kernel/crc32_hardware.h" nogil:
    void crc32_init()
    uint32_t c_crc32_extend "crc32_extend"(uint32_t crc, const uint8_t* data, size_t size)
    const crc_implementation* crc32_implementations()

cdef extern from "kernel/crc32c_hardware.h" nogil:
    void crc32c_init()
    uint32_t c_crc32c_extend "crc32c_extend"(uint32_t crc, const uint8_t* data, size_t size)
    const crc_implementation* crc32c_implementations()


crc32_init()
crc32c_init()


cdef uint32_t crc32_extend(uint32_t crc, const uint8_t* data, size_t size) noexcept nogil:
    return c_crc32_extend(crc, data, size)


cdef uint32_t crc32c_extend(uint32_t crc, const uint8_t* data, size_t size) noexcept nogil:
    return c_crc32c_extend(crc, data, size)


def crc32(data, uint32_t crc=0):
    """Return the CRC-32 of a bytes-like object, continuing from the CRC of what stood before.

    Raises:
        TypeError, BufferError: no bytes-like object, or one in pieces.
        OverflowError: a `crc` that is not a number of 32 bits.

    Example:
        >>> hex(crc32(b"123456789"))
        '0xcbf43926'
        >>> hex(crc32(b"6789", crc32(b"12345")))
        '0xcbf43926'
    """
    return checksum_of(c_crc32_extend, data, crc)


def crc32_names():
    """Return the names of what this processor can run, the one in use first, "table" last."""
    return names_of(crc32_implementations())


def crc32_by(str implementation, data, uint32_t crc=0):
    """Return the same by one of `crc32_names()`; ValueError when it is not among them."""
    return checksum_by(crc32_implementations(), implementation, data, crc)


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
    return checksum_of(c_crc32c_extend, data, crc)


def crc32c_names():
    """Return the names of what this processor can run, the one in use first, "table" last."""
    return names_of(crc32c_implementations())


def crc32c_by(str implementation, data, uint32_t crc=0):
    """Return the same by one of `crc32c_names()`; ValueError when it is not among them."""
    return checksum_by(crc32c_implementations(), implementation, data, crc)


cdef inline object checksum_of(crc_function* extend, object data, uint32_t crc):
    # No call here can fail before the buffer is released.
    cdef Py_buffer view
    if PyBytes_CheckExact(data):     # avoids the buffer protocol, a third of a short call's time
        return extend(crc, <const uint8_t*>PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    crc = extend(crc, <const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


cdef tuple names_of(const crc_implementation* each):
    names = []
    while each.name != NULL:
        names.append((<bytes>each.name).decode())
        each += 1
    return tuple(names)


cdef object checksum_by(const crc_implementation* first, str name, object data, uint32_t crc):
    cdef const crc_implementation* each = first
    while each.name != NULL:
        if (<bytes>each.name).decode() == name:
            return checksum_of(each.extend, data, crc)
        each += 1
    raise ValueError(f"{name!r}, expected one of {names_of(first)}")
