"""CRC-32 (IEEE 802.3), the checksum of Kafka's message sets: magic 0 and 1, and zlib's."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t


cdef extern from "kernel/crc32_hardware.h" nogil:
    ctypedef uint32_t crc_function(uint32_t crc, const uint8_t* data, size_t size)

    struct crc_implementation:
        const char* name
        crc_function* extend

    void c_init "crc32_init"()
    uint32_t c_extend "crc32_extend"(uint32_t crc, const uint8_t* data, size_t size)
    const crc_implementation* c_implementations "crc32_implementations"()


c_init()


cdef uint32_t crc32_extend(uint32_t crc, const uint8_t* data, size_t size) noexcept nogil:
    return c_extend(crc, data, size)


cdef inline object checksum(crc_function* extend, object data, uint32_t crc):
    """Nothing here can fail between taking the buffer and giving it back."""
    cdef Py_buffer view
    if PyBytes_CheckExact(data):     # spares the buffer protocol, a third of a short call
        return extend(crc, <const uint8_t*>PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    crc = extend(crc, <const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


def crc32(data, uint32_t crc=0):
    """Return the CRC-32 of a bytes-like object, continuing from the CRC of what stood before."""
    return checksum(c_extend, data, crc)


def implementations():
    """Return the names of what this processor can run, the one in use first, "table" last."""
    cdef const crc_implementation* each = c_implementations()
    names = []
    while each.name != NULL:
        names.append((<bytes>each.name).decode())
        each += 1
    return tuple(names)


def crc32_by(str implementation, data, uint32_t crc=0):
    """Return the same by one of `implementations()`; ValueError when it is not among them."""
    cdef const crc_implementation* each = c_implementations()
    while each.name != NULL:
        if (<bytes>each.name).decode() == implementation:
            return checksum(each.extend, data, crc)
        each += 1
    raise ValueError(f"{implementation!r}, expected one of {implementations()}")
