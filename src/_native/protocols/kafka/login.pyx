"""Kafka's protocol before a connection has logged in: nothing is served here, Python decides.

Frames are short, and an empty one is possible: after SaslHandshake v0 the client's tokens come
without the header of a request, and those of the broker are sent without one.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.protocols.kafka.envelope cimport (
    ENVELOPE_OK,
    ApiTable,
    RequestHead,
    apis_read,
    envelope_read,
)
from broker._native.protocols.kafka.handing_over cimport request_hand_over
from broker._native.wire.connection cimport Connection, NativeProtocol
from broker._native.wire.frame cimport FRAME_HEAD_SIZE, frame_announced, frame_cut
from broker._native.wire.pending_reply cimport FRAMES_ARE_BARE, PendingReply, hand_over

BARE_TOKEN = -1    # the operation of a frame without a header


@cython.final
cdef class KafkaGate(NativeProtocol):
    """Leaves every request to Python."""

    cdef ApiTable apis
    cdef readonly int32_t frame_bytes_max

    def __cinit__(self, fallback, apis, *, int32_t frame_bytes_max):
        """Read the headers of these APIs (key, min, max, first flexible version)."""
        self.fallback = fallback
        self.is_closed_idle = True
        self.frame_bytes_max = frame_bytes_max
        apis_read(apis, &self.apis)

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept:
        return frame_cut(data, size, 0, <uint32_t>self.frame_bytes_max, frame)

    cdef int64_t announced(self, const uint8_t* data, size_t size) noexcept:
        return frame_announced(data, size, <uint32_t>self.frame_bytes_max)

    cdef void refuse(self, Connection connection, int64_t cut):
        connection.close(f"frame of more than {self.frame_bytes_max} bytes before its login")

    cdef bint serve(self, Connection connection, Cursor frame):
        cdef RequestHead head
        cdef PendingReply pending
        if connection.protocol_flags & FRAMES_ARE_BARE:
            pending = hand_over(connection, frame)
            if pending is None:
                return False
            pending.operation = BARE_TOKEN
            pending.head.size = FRAME_HEAD_SIZE
            return True
        if envelope_read(frame, &self.apis, &head) != ENVELOPE_OK:
            connection.close("request with a key, version or header that is not served")
            return False
        return request_hand_over(connection, &head) is not None
