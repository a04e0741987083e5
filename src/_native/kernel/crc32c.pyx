"""CRC-32C (Castagnoli) in hardware, the checksum of Kafka's record batches (RFC 3720 B.4)."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport uint8_t, uint32_t


cdef extern from "kernel/crc32c_hardware.h" nogil:
    void c_init "crc32c_init"()
    uint32_t c_extend "crc32c_extend"(uint32_t crc, const uint8_t* data, size_t size)
    uint32_t c_extend_table "crc32c_extend_table"(uint32_t crc, const uint8_t* data, size_t size)
    const char* c_implementation "crc32c_implementation"()


c_init()


cdef uint32_t crc32c_extend(uint32_t crc, const uint8_t* data, size_t size) noexcept nogil:
    return c_extend(crc, data, size)


def crc32c(data, uint32_t crc=0):
    """Return the CRC-32C of a bytes-like object, continuing from the CRC of what stood before."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return c_extend(crc, <const uint8_t*>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)


def crc32c_table(data, uint32_t crc=0):
    """Return the same by table, as processors without the instruction compute it."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return c_extend_table(crc, <const uint8_t*>view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)


def implementation():
    """Return which implementation this processor runs: "sse4.2", "armv8" or "table"."""
    return (<bytes>c_implementation()).decode()
