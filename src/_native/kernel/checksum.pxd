"""Shared by the checksums: a table of implementations, and a call of one on a Python buffer.

Header only: it is compiled into each module that cimports it, so no module depends on another at
run time.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t


cdef extern from "kernel/crc_polynomial.h" nogil:
    ctypedef uint32_t crc_function(uint32_t crc, const uint8_t* data, size_t size)

    struct crc_implementation:
        const char* name
        crc_function* extend


cdef inline object checksum_of(crc_function* extend, object data, uint32_t crc):
    """Return the checksum of a buffer; no call here can fail before the buffer is released."""
    cdef Py_buffer view
    if PyBytes_CheckExact(data):     # avoids the buffer protocol, a third of a short call's time
        return extend(crc, <const uint8_t*>PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data))
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    crc = extend(crc, <const uint8_t*>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


cdef inline tuple checksum_names(const crc_implementation* each):
    names = []
    while each.name != NULL:
        names.append((<bytes>each.name).decode())
        each += 1
    return tuple(names)


cdef inline object checksum_by(
    const crc_implementation* first, str name, object data, uint32_t crc
):
    cdef const crc_implementation* each = first
    while each.name != NULL:
        if (<bytes>each.name).decode() == name:
            return checksum_of(each.extend, data, crc)
        each += 1
    raise ValueError(f"{name!r}, expected one of {checksum_names(first)}")
