"""A request that is left to Python: its body, and the place of its reply in the connection's order.

    hand_over -> PollerState.python_requests -> `dispatch`, in Python -> PendingReply.send, begin
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport malloc
from libc.string cimport memcpy

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.kernel.clock cimport monotonic_us
from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.histogram cimport histogram_add
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.turn cimport is_fenced
from broker._native.wire.connection cimport Connection, Wait
from broker._native.wire.epoll cimport EPOLLRDHUP
from broker._native.wire.frame_memory cimport memory_hand_over
from broker._native.wire.mute cimport mute
from broker._native.wire.reply_slot cimport ReplySlot, slot_free, slot_new
from broker._native.wire.request_meter cimport RequestMeter


@cython.final
cdef class PendingReply:
    """A request that Python answers; its place in the order of replies is reserved."""

    def __repr__(self):
        return f"<PendingReply {self.operation} v{self.version} on {self.connection!r}>"

    @property
    def session(self):
        """The state of the Python protocol for the connection."""
        return self.connection.session

    def take_body(self):
        """Return the body of the request, without its header, and release it: only once."""
        cdef bytes body = self.body
        if self.slot != NULL and self.slot.meter != NULL:
            self.handled_us = monotonic_us()
            histogram_add(&self.slot.meter.queue, self.handled_us - self.slot.read_us)
        self.release_memory()
        self.body = None
        return body

    def waits(self):
        """Note that its answer comes later: what it takes from now on is time of waiting."""
        cdef int64_t now_us
        if self.slot == NULL or self.slot.meter == NULL:
            return
        now_us = monotonic_us()
        histogram_add(&self.slot.meter.local, now_us - self.handled_us)
        self.handled_us = now_us
        self.has_waited = True

    cdef void note_times(self) noexcept:
        cdef RequestMeter* meter = self.slot.meter
        cdef int64_t took_us
        if meter == NULL or self.handled_us == 0:
            return
        took_us = monotonic_us() - self.handled_us
        self.slot.is_timed = True
        if self.has_waited:
            histogram_add(&meter.remote, took_us)
        else:
            histogram_add(&meter.local, took_us)
            histogram_add(&meter.remote, 0)

    cdef int must_be_unanswered(self) except -1:
        if self.slot == NULL:
            raise RuntimeError(f"{self!r} has been answered already")
        return 0

    cdef void release_memory(self) noexcept:
        if self.counted > 0 and self.connection is not None:
            memory_hand_over(&self.connection.poller.memory, -self.counted)
            self.counted = 0

    def send(self, body, *, bytes following=None, is_last=False, is_droppable=False, written=(),
             int64_t throttle_ms=0):
        """Answer with a body (bytes), or with None for a request that gets no response.

        After an answer with `is_last` the connection is closed. One with `is_droppable` is not sent
        if the peer does not read its earlier replies. `following` is the body of a second frame
        after it, where frames are a length and a body. The writes in `written`, as (log, end
        offset), need not be visible yet: later requests of the connection that are not writes wait
        for them. The connection is mute for `throttle_ms`.
        """
        cdef uint32_t head = self.head.size
        cdef uint32_t size, sent
        cdef bytes content
        cdef PartitionLog log
        self.must_be_unanswered()
        if body is not None:
            content = body
            size = <uint32_t>len(content)
            if following is not None:
                content += len(following).to_bytes(4, "big") + following
            sent = head + <uint32_t>len(content)
            if sent > self.slot.capacity:
                self.slot.data = <uint8_t*>malloc(sent)
                if self.slot.data == NULL:
                    self.slot.data = self.slot.inline_data
                    raise MemoryError
                self.slot.capacity = sent
                self.connection.slots_bytes += self.slot.capacity
            if head > 0:
                store_uint32(self.head.data, head + size - 4)
                memcpy(self.slot.data, self.head.data, head)
            memcpy(self.slot.data + head, <const char*>content, sent - head)
            self.slot.size = sent
        self.slot.is_closing = is_last
        self.slot.needs_lease = not is_fenced(self.connection.poller.turn)
        self.slot.broker_epoch = self.connection.poller.turn.broker_epoch
        self.slot.is_droppable = is_droppable
        for log, end_offset in written:
            if not self.connection.is_closed and not self.connection.note_unseen(log, end_offset):
                raise MemoryError
        # Nothing is served after the last answer; the connection will be closed.
        self.finish(is_last)
        if throttle_ms > 0:
            mute(self.connection, throttle_ms)

    def set_login(self, *, needs_login, is_bare=False, int64_t lifetime_ms=0):
        """Note, before the answer, that the connection has logged in, or that it is to log in.

        Until it has logged in, its protocol's gate serves it. `is_bare`: its next frames have no
        header. After `lifetime_ms`, if any, it must log in again.
        """
        cdef Connection connection = self.connection
        self.must_be_unanswered()
        if connection.is_closed:
            return
        connection.protocol_flags = FRAMES_ARE_BARE if is_bare else 0
        connection.needs_login = needs_login
        connection.login_ends_ms = 0
        if needs_login:
            if connection.protocol.gate is not None:
                connection.protocol = connection.protocol.gate
            return
        if connection.protocol.opened is not None:
            connection.protocol = connection.protocol.opened
        if lifetime_ms > 0:
            connection.login_ends_ms = connection.poller.monotonic_ms + lifetime_ms

    def close(self):
        """Close the connection instead of answering, after the earlier replies have been sent."""
        self.must_be_unanswered()
        self.slot.is_closing = True
        self.finish(True)

    def begin(self, Wait wait not None):
        """Answer with a stream of frames, for example; later requests wait for its end."""
        cdef Connection connection = self.connection
        self.must_be_unanswered()
        self.finish(True)
        if connection.is_closed:
            wait.ended()
            return
        connection.begin_wait(wait)
        if wait.is_stream and (connection.input_ended or not connection.interest & EPOLLRDHUP):
            # The peer has gone. A stream that has nothing to send would not notice that by itself.
            connection.close("closed by the peer")

    cdef void finish(self, bint is_busy) except *:
        cdef ReplySlot* slot = self.slot
        cdef Connection connection
        self.release_memory()
        self.note_times()
        self.slot = NULL
        slot.waiting -= 1
        if slot.connection == NULL:
            slot_free(slot)     # the connection has been closed meanwhile
            return
        connection = <Connection>slot.connection
        connection.slots_waiting -= 1
        connection.is_busy = is_busy
        connection.request_drain()
        connection.poller.turn.request_end()

    def __dealloc__(self):
        # Dropped without an answer: the handler failed. Later replies would be out of order, so the
        # connection is closed.
        self.release_memory()
        if self.slot != NULL:
            self.slot.is_closing = True
            self.finish(True)


cdef PendingReply hand_over(Connection connection, Cursor body):
    """Leave a request to Python, reserving the place of its reply; None if it closed."""
    cdef PendingReply pending = PendingReply.__new__(PendingReply)
    cdef ReplySlot* slot = slot_new(0, 0)
    if slot == NULL:
        connection.close("no memory for its reply")
        return None
    slot.waiting = 1
    pending.slot = slot
    pending.connection = connection
    pending.protocol = connection.protocol.fallback
    pending.body = PyBytes_FromStringAndSize(<const char*>body.next, body.left)
    pending.counted = body.left
    memory_hand_over(&connection.poller.memory, pending.counted)
    connection.is_busy = True
    connection.enqueue(slot)
    connection.poller.python_requests.append(pending)
    return pending
