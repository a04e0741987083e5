"""Cursus: length-prefixed frames in both directions. Plain batches, PUBLISH and most
APPEND_STREAM are served natively.

Requests are answered one by one, in order; a frame may be empty. An idle connection is not closed:
the clients would not open another one.
"""

cimport cython
from libc.stdint cimport int64_t, uint8_t, uint32_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.permissions cimport Permissions
from broker._native.protocols.cursus.batch cimport Text, text_of
from broker._native.protocols.cursus.event_append cimport (
    append_foresee,
    append_take,
    cursus_append,
)
from broker._native.protocols.cursus.first_bytes cimport cursus_recognizes
from broker._native.protocols.cursus.produce cimport BATCH_MAGIC, LEADER_MAX, cursus_produce
from broker._native.protocols.cursus.publish cimport RoundRobin, cursus_publish, publish_take
from broker._native.protocols.cursus.stream_heads cimport StreamTables
from broker._native.wire.connection cimport Connection, NativeProtocol, Verdict
from broker._native.wire.frame cimport FRAME_HEAD_SIZE, frame_announced, frame_cut
from broker._native.wire.pending_reply cimport PendingReply, hand_over
from broker._native.wire.permitted cimport permissions_of
from broker._native.wire.reply_slot cimport ReplySlot

from broker.model import limits

cdef uint32_t FRAME_BYTES_MAX = limits.CURSUS_FRAME_BYTES_MAX


@cython.final
cdef class Cursus(NativeProtocol):
    """The Cursus protocol."""

    cdef RoundRobin round_robin
    cdef object state_of
    cdef StreamTables streams

    def __cinit__(
            self, fallback, RoundRobin round_robin=None, state_of=None, StreamTables streams=None):
        """Leave all other requests to `fallback`.

        It shares the round-robin over partitions, and the streams of events. `state_of` returns the
        state of a connection, with the address of this broker, `leader`, and keeps it in its
        session.
        """
        self.fallback = fallback
        self.state_of = state_of
        self.streams = StreamTables() if streams is None else streams
        self.round_robin = RoundRobin() if round_robin is None else round_robin
        self.serves_half_closed = self.is_metered = True

    cdef Verdict recognizes(self, const uint8_t* data, size_t size) noexcept:
        return cursus_recognizes(data, size)

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept:
        return frame_cut(data, size, 0, FRAME_BYTES_MAX, frame)

    cdef int64_t announced(self, const uint8_t* data, size_t size) noexcept:
        return frame_announced(data, size, FRAME_BYTES_MAX)

    cdef void refuse(self, Connection connection, int64_t cut):
        connection.close(f"frame of more than {FRAME_BYTES_MAX} bytes")

    cdef bint is_write(self, Cursor frame) noexcept:
        cdef Cursor command = frame
        if frame.left > 0 and frame.next[0] == BATCH_MAGIC:
            return True
        return publish_take(&frame) or append_take(&command)

    cdef bint is_read(self, Cursor frame) noexcept:
        return not self.is_write(frame)

    cdef bytes leader_of(self, session):
        """Return this broker's address for the client of a connection."""
        cdef object state = getattr(session, "state", None)
        if state is None and self.state_of is not None:
            state = self.state_of(session)
        return None if state is None else state.leader

    cdef bint serve(self, Connection connection, Cursor frame):
        cdef PendingReply pending
        cdef Permissions permissions = permissions_of(connection)
        cdef ReplySlot* slot = NULL
        cdef bytes address = self.leader_of(connection.session)
        cdef Text leader = text_of(address, LEADER_MAX)
        if address is None or <size_t>len(address) == leader.size:
            slot = cursus_produce(
                connection.poller.topics, connection.poller.turn, permissions,
                &connection.unseen, leader, frame)
            if slot == NULL:
                slot = cursus_publish(
                    connection.poller.topics, connection.poller.turn, permissions,
                    self.round_robin, &connection.unseen, leader, connection.session, frame)
        if slot != NULL:
            connection.enqueue(slot)
            return True
        if cursus_append(connection, permissions, self.streams, frame):
            return True
        pending = hand_over(connection, frame)
        if pending is None:
            return False
        pending.head.size = FRAME_HEAD_SIZE
        return True

    cdef int foresee(self, Connection connection, Cursor rest) except -1:
        return append_foresee(connection, permissions_of(connection), self.streams, rest)
