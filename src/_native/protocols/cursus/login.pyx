"""Cursus before a connection has logged in: short frames, each of which is left to Python."""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.wire.connection cimport Connection, NativeProtocol
from broker._native.wire.frame cimport FRAME_HEAD_SIZE, frame_announced, frame_cut
from broker._native.wire.pending_reply cimport PendingReply, hand_over


@cython.final
cdef class CursusGate(NativeProtocol):
    """Leaves every frame to Python."""

    cdef readonly int32_t frame_bytes_max

    def __cinit__(self, fallback, *, int32_t frame_bytes_max):
        """Leave frames of up to this size to `fallback`."""
        self.fallback = fallback
        self.frame_bytes_max = frame_bytes_max

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept:
        return frame_cut(data, size, 0, <uint32_t>self.frame_bytes_max, frame)

    cdef int64_t announced(self, const uint8_t* data, size_t size) noexcept:
        return frame_announced(data, size, <uint32_t>self.frame_bytes_max)

    cdef void refuse(self, Connection connection, int64_t cut):
        connection.close(f"frame of more than {self.frame_bytes_max} bytes before its login")

    cdef bint serve(self, Connection connection, Cursor frame):
        cdef PendingReply pending = hand_over(connection, frame)
        if pending is None:
            return False
        pending.head.size = FRAME_HEAD_SIZE
        return True
