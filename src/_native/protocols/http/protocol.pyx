"""HTTP for health checks: one request without a body, one answer, then the connection closes.

Bytes after the head of the request are ignored; a head that is too long closes the connection.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from broker._native.kernel.cursor cimport Cursor
from broker._native.wire.connection cimport (
    VERDICT_MORE,
    VERDICT_NO,
    VERDICT_YES,
    Connection,
    NativeProtocol,
    Verdict,
)
from broker._native.wire.pending_reply cimport hand_over

from broker.model import limits

cdef extern from "string.h" nogil:
    void* memmem(const void* text, size_t size, const void* wanted, size_t wanted_size)

cdef enum:
    CUT_TOO_LONG = -1
    METHOD_SIZE = 4           # bytes of the first line that identify it

cdef size_t HEAD_BYTES_MAX = limits.HTTP_HEAD_BYTES_MAX


@cython.final
cdef class Http(NativeProtocol):
    """Requests without a body."""

    def __cinit__(self, fallback):
        """Leave every request to `fallback`."""
        self.fallback = fallback
        self.is_closed_idle = True
        self.serves_half_closed = True

    cdef Verdict recognizes(self, const uint8_t* data, size_t size) noexcept:
        # As soon as a byte differs it is not HTTP: it may be a short line of text.
        cdef size_t compared = min(size, <size_t>METHOD_SIZE)
        if (memcmp(data, b"GET ", compared) and memcmp(data, b"POST", compared)
                and memcmp(data, b"HEAD", compared)):
            return VERDICT_NO
        return VERDICT_YES if size >= METHOD_SIZE else VERDICT_MORE

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept:
        cdef const uint8_t* end = <const uint8_t*>memmem(
            data, min(size, HEAD_BYTES_MAX), b"\r\n\r\n", 4)
        if end == NULL:
            return CUT_TOO_LONG if size >= HEAD_BYTES_MAX else 0
        frame.next = data
        frame.left = <size_t>(end - data)
        return <int64_t>frame.left + 4

    cdef void refuse(self, Connection connection, int64_t cut):
        connection.close(f"request head of more than {HEAD_BYTES_MAX} bytes")

    cdef bint serve(self, Connection connection, Cursor frame):
        return hand_over(connection, frame) is not None
