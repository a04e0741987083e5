"""A connection: bytes in, frames, requests served, replies in order, bytes out.

Requests of a connection start in order and are answered in order. A request that is not answered at
once (a long poll, or one that Python still works on) holds back the later ones of its connection,
as Apache Kafka does. A write that waits for its sync holds back all but other writes, so that a
request sees everything that was written in front of it; writes are bounded by bytes.

    recv -> receive: a buffer for all; the start of a frame is kept -> take_frames -> NativeProtocol.serve
                                                                                       |
    send <- OutputQueue <- drain: complete replies, in order <- ReplySlot, one a request
                             ^
                           Flow.go_on: frames that follow a request until it ends, once the earlier
                           replies have left; what the peer says meanwhile is not read

The first bytes decide which NativeProtocol cuts and serves what follows (wire/detection), unless the
listener has decided before.

What is ready when is the poller's business (wire/poller); a connection that has something to send,
or requests that it could serve, puts itself on its list of the touched.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC
from posix.unistd cimport close as c_close

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.kernel.clock cimport clock_ms, monotonic_us
from broker._native.kernel.cursor cimport Cursor
from broker._native.log.partition_log cimport PartitionLog
from broker._native.wire.buffer_pool cimport pool_trim
from broker._native.wire.detection cimport PROTOCOL_UNDECIDED, PROTOCOLS, Protocol, protocol_of
from broker._native.wire.epoll cimport (
    EPOLL_CTL_MOD,
    EPOLLERR,
    EPOLLHUP,
    EPOLLIN,
    EPOLLOUT,
    EPOLLRDHUP,
    epoll_ctl,
    epoll_event,
)
from broker._native.wire.fetch cimport FetchSession
from broker._native.wire.frame_memory cimport (
    HEAD_ONLY,
    KEPT_WAITS,
    kept_drop,
    kept_grow,
    kept_put,
    memory_hand_over,
    memory_leave,
    memory_room,
    memory_wait,
)
from broker._native.wire.output_queue cimport (
    CHUNK_MIN,
    SEND_DONE,
    SEND_FAILED,
    SendStatus,
    queue_commit,
    queue_free,
    queue_reserve,
    queue_send,
)
from broker._native.wire.reply_slot cimport ReplySlot, slot_cost, slot_free, slot_new
from broker._native.wire.timer_wheel cimport wheel_clear, wheel_set
from broker._native.wire.unseen_writes cimport (
    unseen_add,
    unseen_free,
    unseen_prune,
    unseen_slot,
    unseen_wait,
)

from broker.model import limits

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int socket, void* into, size_t size, int flags)
    int MSG_DONTWAIT

cdef extern from "sys/ioctl.h" nogil:
    int ioctl(int fd, unsigned long request, ...)

cdef extern from "linux/sockios.h" nogil:
    unsigned long SIOCOUTQNSD

cdef enum:
    # Some 100 us between two looks at the clock, if all are requests of the usual kind: each counts
    # as 1, and so do 4 KiB of a longer one.
    WORK_PER_LOOK = 64
    WORK_PER_CALL = 4               # of a socket
    WORK_BYTES_SHIFT = 12

cdef size_t RECEIVE_BYTES_PER_TURN = limits.RECEIVE_BYTES_PER_TURN
cdef int64_t SEND_BYTES_PER_TURN = limits.SEND_BYTES_PER_TURN
cdef int64_t UNFINISHED_FRAMES_BYTES_MAX = limits.UNFINISHED_FRAMES_BYTES_MAX
cdef int64_t WAITING_REPLY_BYTES_PER_CONNECTION = limits.WAITING_REPLY_BYTES_PER_CONNECTION
cdef uint32_t UNSEEN_PARTITIONS_MAX = limits.UNSEEN_PARTITIONS_PER_CONNECTION_MAX
cdef int UNREAD_ANSWER_BYTES_MAX = limits.UNREAD_ANSWER_BYTES_MAX
cdef int64_t REPLY_QUEUE_BYTES_PER_CONNECTION = limits.REPLY_QUEUE_BYTES_PER_CONNECTION
cdef int64_t REPLY_MEMORY_BYTES_PER_CONNECTION = limits.REPLY_MEMORY_BYTES_PER_CONNECTION
cdef int64_t REPLY_MEMORY_SCARCE_BYTES = limits.REPLY_MEMORY_SCARCE_BYTES
cdef int64_t REPLY_MEMORY_BYTES_MAX = limits.REPLY_MEMORY_BYTES_MAX


cdef class PollerState:
    """What all connections have in common; the poller is one."""

    def __cinit__(self):
        self.connections = {}
        self.touched = []
        self.slow = []
        self.receive = <uint8_t*>malloc(RECEIVE_BYTES_PER_TURN)
        if self.receive == NULL:
            raise MemoryError
        self.dialects = [None] * PROTOCOLS
        self.memory.bytes_max = UNFINISHED_FRAMES_BYTES_MAX

    def __dealloc__(self):
        free(self.receive)
        pool_trim(&self.memory.pool)

    cdef void share_until(self, int64_t late_us) noexcept:
        """Let requests be served up to a time (monotonic, us)."""
        self.late_us = late_us
        self.is_late = False
        self.work = 0

    cdef bint looks_late(self) noexcept:
        """Whether others are to have their turn; the clock is read now and then."""
        if self.work >= WORK_PER_LOOK:
            self.work = 0
            self.is_late = monotonic_us() >= self.late_us
        return self.is_late

    cdef void shed_replies(self):
        """Close those who have left their replies unread for longest, until the others fit.

        One reply that is larger than all may be together is left alone: it could never be read.
        """
        cdef Connection each, oldest
        cdef int count
        while self.reply_memory_bytes > REPLY_MEMORY_BYTES_MAX:
            oldest = None
            count = 0
            for each in self.connections.values():
                if each.output.memory_bytes > CHUNK_MIN:
                    count += 1
                    if oldest is None or each.active_ms < oldest.active_ms:
                        oldest = each
            if count < 2:
                return
            oldest.close("its replies stay unread, and others need the memory")


cdef class NativeProtocol:
    """How one wire protocol cuts a connection's bytes into requests, and serves them.

    `serve` is the fast path; whatever it leaves goes to `protocol`, by `Connection.hand_over`.
    """

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept:
        """Find the first frame: the bytes it takes, 0 when there are more to come, < 0 for bad."""
        return 0

    cdef int64_t announced(self, const uint8_t* data, size_t size) noexcept:
        """How long the frame is that begins here; 0 when that is not known, or not allowed."""
        return 0

    cdef bint is_write(self, Cursor frame) noexcept:
        """Whether a request only appends, and may start before earlier writes are visible.

        The frame may lack its end.
        """
        return False

    cdef bint serve(self, Connection connection, Cursor frame):
        """Start one request; False when the connection was closed over it."""
        return False

    cdef void answered(self, int64_t begun_ns) noexcept:
        """Note that a reply of which that was asked is on its way."""

    cdef void refuse(self, Connection connection, int64_t cut):
        """Answer what `cut` calls bad: the connection ends."""
        connection.close("not a frame of its protocol")

    cdef void serve_last(self, Connection connection, Cursor rest):
        """Make what can be made of an unfinished frame, behind which nothing comes any more."""


cdef class Flow:
    """What a connection sends by itself behind a request.

    It begins with `PendingReply.begin` and is over with `Connection.end_flow`, or its connection.
    """

    cdef bint go_on(self):
        """Add to the output; whether there may be more to add at once."""
        return False

    cdef bint has_more(self) noexcept:
        """Whether it would add more if it were asked now."""
        return False

    cdef void woken(self):
        """What it waits for may have come."""

    cdef void due(self):
        """The connection's timer, which it has set, has gone off."""

    cdef void ended(self):
        """It is over: let go of everything."""

    cdef void must_stop(self):
        """The broker stops: end by itself."""


@cython.final
cdef class PendingReply:
    """One request that Python answers; its place among its connection's replies is kept."""

    def __repr__(self):
        return f"<PendingReply {self.api_key} v{self.api_version} on {self.connection!r}>"

    @property
    def session(self):
        """What the protocol keeps for the connection."""
        return self.connection.session

    def take_body(self):
        """Return what follows the request's header, once: from here on it is the caller's."""
        cdef bytes body = self.body
        self.uncount()
        self.body = None
        return body

    cdef void uncount(self) noexcept:
        if self.counted > 0 and self.connection is not None:
            memory_hand_over(&self.connection.shared.memory, -self.counted)
            self.counted = 0

    def send(self, body, *, is_last=False, is_droppable=False, written=()):
        """Answer with a body (bytes), or with None: this request gets no response.

        After the last one the connection is closed. One that is droppable is not sent when the peer
        does not read what it was sent before. What was `written`, as (log, end offset), need not be
        visible yet: later requests of the connection that are no writes wait for it.
        """
        cdef uint32_t head = self.head.size
        cdef uint32_t size
        cdef bytes content
        cdef PartitionLog log
        if self.slot == NULL:
            raise RuntimeError(f"{self!r} is answered already")
        if body is not None:
            content = body
            size = <uint32_t>len(content)
            if head + size > self.slot.capacity:
                self.slot.data = <uint8_t*>malloc(head + size)
                if self.slot.data == NULL:
                    self.slot.data = self.slot.inline_data
                    raise MemoryError
                self.slot.capacity = head + size
                self.connection.slots_bytes += self.slot.capacity
            if head > 0:
                store_uint32(self.head.data, head + size - 4)
                memcpy(self.slot.data, self.head.data, head)
            memcpy(self.slot.data + head, <const char*>content, size)
            self.slot.size = head + size
        self.slot.is_closing = is_last
        self.slot.is_droppable = is_droppable
        for log, end_offset in written:
            if not self.connection.is_closed and not self.connection.note_unseen(log, end_offset):
                raise MemoryError
        # Behind the last answer nothing is served any more, until the connection is closed.
        self.finish(is_last)

    def close(self):
        """Close the connection instead of answering, once what came before has been sent."""
        if self.slot == NULL:
            raise RuntimeError(f"{self!r} is answered already")
        self.slot.is_closing = True
        self.finish(True)

    def begin(self, Flow flow not None):
        """Answer by a flow of frames; later requests wait for its end."""
        cdef Connection connection = self.connection
        if self.slot == NULL:
            raise RuntimeError(f"{self!r} is answered already")
        self.finish(True)
        if connection.is_closed:
            flow.ended()
            return
        connection.flow = flow
        flow.connection = connection
        if connection.has_ended or not connection.interest & EPOLLRDHUP:
            # Who would have read it has gone; a flow need not send anything to find that out.
            connection.close("closed by the peer")

    cdef void finish(self, bint is_busy) except *:
        cdef ReplySlot* slot = self.slot
        self.uncount()
        self.slot = NULL
        slot.waiting -= 1
        if slot.connection == NULL:
            slot_free(slot)     # the connection has gone meanwhile
            return
        self.connection.slots_waiting -= 1
        self.connection.is_busy = is_busy
        self.connection.touch()
        self.connection.shared.turn.request_end()

    def __dealloc__(self):
        # Dropped without an answer: the handler failed. The connection cannot go on in order.
        cdef Connection connection
        self.uncount()
        if self.slot == NULL:
            return
        if self.slot.connection == NULL:
            slot_free(self.slot)
            return
        connection = <Connection>self.slot.connection
        self.slot.is_closing = True
        self.slot.waiting = 0
        connection.slots_waiting -= 1
        connection.touch()
        connection.shared.turn.request_end()


@cython.final
@cython.no_gc_clear    # what it shares would be gone before it takes its replies off the sums
cdef class Connection:
    """One socket: what is read of a frame, what is owed in replies, what is left to send."""

    def __cinit__(self, PollerState shared, int fd, str peer_host):
        self.shared = shared
        self.fd = fd
        self.peer_host = peer_host
        self.interest = EPOLLIN | EPOLLRDHUP
        self.timer.owner = self.kept.owner = <void*>self
        self.output.all_memory_bytes = &shared.reply_memory_bytes
        self.active_ms = clock_ms(CLOCK_MONOTONIC)

    def __dealloc__(self):
        # Closed long ago, unless the poller itself was dropped.
        self.drop_replies()
        unseen_free(&self.unseen)
        free(self.kept.data)

    def __repr__(self):
        return f"<Connection {self.fd} from {self.peer_host}>"

    @property
    def frame_started_ms(self):
        """Since when a frame is awaited, on the monotonic clock; 0: none is."""
        return self.kept.started_ms

    # ---- in -----------------------------------------------------------------------------------

    cdef void on_event(self, uint32_t events):
        if self.is_closed:
            return
        if events & (EPOLLERR | EPOLLHUP):
            self.close("reset by the peer")
            return
        if events & EPOLLOUT:
            self.touch()
        if events & EPOLLRDHUP and (self.is_busy or not events & EPOLLIN):
            if self.flow is not None or self.dialect is None or (
                    not self.dialect.answers_after_end):
                self.close("closed by the peer")
            else:
                # What it said before, and that it ends, is read when its turn comes.
                self.watch(self.interest & ~<uint32_t>(EPOLLIN | EPOLLRDHUP))
        elif events & EPOLLIN:
            if self.is_busy or self.is_full() or self.kept.state == KEPT_WAITS:
                # Not now: what arrives waits in the kernel, and only a hang-up wakes us.
                self.watch(self.interest & ~<uint32_t>EPOLLIN)
            elif not self.has_waiting:
                self.read()

    cdef bint is_full(self) noexcept:
        return (self.is_closing or self.has_ended
                or self.slots_bytes > WAITING_REPLY_BYTES_PER_CONNECTION
                or self.output.bytes > REPLY_QUEUE_BYTES_PER_CONNECTION
                or self.output.memory_bytes > (
                    0 if self.shared.reply_memory_bytes > REPLY_MEMORY_SCARCE_BYTES
                    else REPLY_MEMORY_BYTES_PER_CONNECTION))

    cdef void read(self):
        """Receive what is there, up to a turn's share, and serve the whole frames in it."""
        while self.receive() and not self.is_closed:
            pass

    cdef bint receive(self):
        # One recv. True when it brought only the head of a long frame, whose rest is likely there.
        cdef PollerState shared = self.shared
        cdef uint8_t* into = shared.receive
        cdef size_t have = self.kept.size, room = RECEIVE_BYTES_PER_TURN
        cdef bint is_own = self.kept.target > 0
        cdef ssize_t count
        cdef Py_ssize_t used
        if is_own:
            into = self.kept.data
            room = self.kept.target
        elif self.expects_long and have < HEAD_ONLY:
            # The frame before was long: read the head of this one, then the rest where it stays.
            room = HEAD_ONLY
        room = memory_room(&shared.memory, &self.kept, room)
        if room <= have:
            # Its place in the queue is kept, and what arrives in the kernel.
            memory_wait(&shared.memory, &self.kept, shared.monotonic_ms)
            self.watch(self.interest & ~<uint32_t>EPOLLIN)
            return False
        if have > 0 and not is_own:
            memcpy(into, self.kept.data, have)
        shared.work += WORK_PER_CALL
        count = recv(self.fd, into + have, room - have, MSG_DONTWAIT)
        if count < 0:
            if errno != EAGAIN and errno != EINTR:
                self.close("reset by the peer")
            return False
        if count == 0:
            self.end()
            return False
        self.active_ms = shared.monotonic_ms
        have += <size_t>count
        if is_own:
            kept_grow(&shared.memory, &self.kept, have)
            if have < self.kept.target:
                return False
        used = self.take_frames(into, have)
        if used < 0 or self.is_closed:
            return False
        if is_own:
            # Held exactly one frame. Served, or kept whole for a later turn.
            if used > 0:
                kept_drop(&shared.memory, &self.kept)
            else:
                memory_leave(&shared.memory, &self.kept)
        elif <size_t>used < have:
            self.keep(into + used, have - <size_t>used, used == 0 and not self.has_waiting)
        else:
            kept_drop(&shared.memory, &self.kept)
            self.expects_long = False
        return self.expects_long and room == HEAD_ONLY and not (
            self.is_busy or self.is_full() or self.has_waiting)

    cdef void keep(self, const uint8_t* data, size_t size, bint is_same_frame):
        # Keep bytes that are not served yet: the start of a frame, or frames that must wait.
        cdef int64_t announced = 0
        if self.dialect is not None:
            announced = self.dialect.announced(data, size)
        self.expects_long = announced > <int64_t>max(size, RECEIVE_BYTES_PER_TURN // 2)
        if not kept_put(&self.shared.memory, &self.kept, data, size, <size_t>announced,
                        is_same_frame, self.shared.monotonic_ms):
            self.close("no memory for its frame")

    cdef void listen(self):
        """Read on, if nothing of its own hinders it."""
        if not self.is_busy and not self.is_full() and self.kept.state != KEPT_WAITS:
            self.watch(self.interest | EPOLLIN)

    cdef void begin_anew(self) noexcept:
        """Nobody has listened for the rest of its frame so far, however long that was."""
        self.kept.started_ms = self.active_ms = self.shared.monotonic_ms

    cdef bint decide(self, const uint8_t* data, size_t size):
        # By its first bytes. False: not yet, or closed because nobody here speaks that.
        cdef Protocol protocol = protocol_of(data, size)
        if protocol == PROTOCOL_UNDECIDED:
            return False
        self.dialect = <NativeProtocol>self.shared.dialects[protocol]
        if self.dialect is None:
            self.shared.closed_undecided += 1
            self.close("speaks no protocol that is served here")
            return False
        self.dialect.connections += 1
        return True

    cdef Py_ssize_t take_frames(self, uint8_t* data, size_t size):
        """Serve whole frames until one must wait; the bytes used, or -1 when it closed.

        Those that wait for nothing but a turn are served in the next: it is touched then.
        """
        cdef size_t used = 0
        cdef int64_t taken
        cdef Cursor frame
        if self.dialect is None and not self.decide(data, size):
            return -1 if self.is_closed else 0
        self.has_waiting = False
        while used < size:
            if self.is_busy or self.is_full():
                self.has_waiting = True
                break
            if self.shared.looks_late():
                self.has_waiting = True
                self.touch()
                break
            taken = self.dialect.cut(data + used, size - used, &frame)
            if taken == 0:
                break
            if taken < 0:
                self.has_ended = True
                self.dialect.refuse(self, taken)
                return -1 if self.is_closed else <Py_ssize_t>size
            if self.must_wait(frame):
                self.has_waiting = True
                break
            if self.is_closed:
                return -1
            self.dialect.requests += 1
            self.shared.work += 1 + <int>(taken >> WORK_BYTES_SHIFT)
            if not self.dialect.serve(self, frame):
                return -1
            used += <size_t>taken
        return <Py_ssize_t>used

    cdef bint note_unseen(self, PartitionLog log, int64_t end_offset) noexcept:
        """Note a write that no reply waits for; False without memory."""
        return log.high_watermark >= end_offset or unseen_add(&self.unseen, log, end_offset)

    cdef bint must_wait(self, Cursor frame):
        """Hold a request back until the writes in front of it are visible; whether it is.

        Writes wait only when very many partitions have been written to that no reply waits for.
        """
        if self.slots_waiting == 0 and self.unseen.count == 0:
            return False
        if self.unseen.count < UNSEEN_PARTITIONS_MAX and self.dialect.is_write(frame):
            return False
        if not self.wait_for_unseen() or self.slots_waiting == 0:
            return False
        self.is_held = self.is_busy = True
        return True

    cdef bint wait_for_unseen(self):
        # Have a slot wait for the writes that none waits for; False when it closed instead.
        cdef ReplySlot* slot
        unseen_prune(&self.unseen)
        if self.unseen.count == 0:
            return True
        slot = unseen_slot(&self.unseen)
        if slot == NULL:
            self.close("no memory for its reply")
            return False
        self.enqueue(slot)
        unseen_wait(&self.unseen, slot)
        return True

    cdef void end(self):
        """The peer says no more. One that only half-closed gets what it is owed first."""
        cdef Cursor rest
        if self.dialect is None or not self.dialect.answers_after_end:
            self.close("closed by the peer")
            return
        self.watch(self.interest & ~<uint32_t>(EPOLLIN | EPOLLRDHUP))
        if self.kept.data != NULL:
            rest.next = self.kept.data
            rest.left = self.kept.size
            if self.must_wait(rest):
                return      # the end is read again when what it waits for is visible
            if self.is_closed:
                return
            self.has_ended = True
            self.dialect.serve_last(self, rest)
            kept_drop(&self.shared.memory, &self.kept)
        self.has_ended = True
        self.touch()

    cdef void enqueue(self, ReplySlot* slot):
        slot.connection = <void*>self
        self.slots_bytes += slot_cost(slot)
        if self.slots_tail == NULL:
            self.slots_head = slot
        else:
            self.slots_tail.next = slot
        self.slots_tail = slot
        if slot.waiting == 0:
            self.touch()
        else:
            self.slots_waiting += 1

    cdef void reply(self, const uint8_t* data, size_t size):
        """Answer at once, in the order of requests."""
        cdef ReplySlot* slot = slot_new(<uint32_t>size, 0)
        if slot == NULL:
            self.close("no memory for its reply")
            return
        memcpy(slot.data, data, size)
        slot.size = <uint32_t>size
        self.enqueue(slot)

    cdef void park(self, FetchSession session):
        """Answer a fetch when there is enough, or when its time is over."""
        self.parked = session
        self.is_busy = True
        session.owner.object = <void*>self
        session.park()
        wheel_set(&self.shared.wheel, &self.timer, self.shared.monotonic_ms + session.wait_ms)

    cdef void answer_fetch(self):
        cdef FetchSession session = self.parked
        wheel_clear(&self.shared.wheel, &self.timer)
        session.unpark()
        self.parked = None
        self.is_busy = False
        session.reply(&self.output)
        self.touch()

    cdef void woken(self):
        """What it waits for has changed."""
        if self.flow is not None:
            self.flow.woken()
        elif self.parked.has_enough():
            self.answer_fetch()

    cdef void due(self):
        """Its timer has gone off, and is not set any more."""
        if self.flow is not None:
            self.flow.due()
        else:
            self.answer_fetch()

    cdef void end_flow(self, bytes last, bint is_last):
        """Send what comes last behind all frames, if anything, and close or serve what waits."""
        cdef Flow flow = self.flow
        cdef ReplySlot* slot = slot_new(<uint32_t>len(last), 0)
        self.flow = None
        wheel_clear(&self.shared.wheel, &self.timer)
        flow.ended()
        if slot == NULL:
            self.close("no memory for its reply")
            return
        memcpy(slot.data, <const char*>last, len(last))
        slot.size = <uint32_t>len(last)
        slot.is_closing = self.is_busy = is_last
        self.enqueue(slot)
        self.shared.turn.request_end()

    cdef PendingReply hand_over(self, Cursor body):
        """Leave a request to Python, with a place for its reply; None when it closed instead."""
        cdef PendingReply pending = PendingReply.__new__(PendingReply)
        cdef ReplySlot* slot = slot_new(0, 0)
        if slot == NULL:
            self.close("no memory for its reply")
            return None
        slot.waiting = 1
        pending.slot = slot
        pending.connection = self
        pending.protocol = self.dialect.protocol
        pending.body = PyBytes_FromStringAndSize(<const char*>body.next, body.left)
        pending.counted = body.left
        memory_hand_over(&self.shared.memory, pending.counted)
        self.is_busy = True
        self.enqueue(slot)
        self.shared.slow.append(pending)
        return pending

    cdef void resume(self):
        # Serve what was kept while a request held it back, then listen again.
        cdef Py_ssize_t used
        cdef uint8_t* data = self.kept.data
        cdef size_t size = self.kept.size
        if self.is_closed or self.is_busy or self.is_full():
            return
        if data != NULL:
            used = self.take_frames(data, size)
            if used < 0 or self.is_closed:
                return
            if <size_t>used == size:
                kept_drop(&self.shared.memory, &self.kept)
            elif used > 0:
                self.keep(data + used, size - <size_t>used, False)
            else:
                self.begin_anew()
        self.listen()

    # ---- out ----------------------------------------------------------------------------------

    cdef void touch(self):
        if not self.is_touched and not self.is_closed:
            self.shared.touched.append(self)
            self.is_touched = True

    cdef void drain(self):
        """Move the replies that are complete, in order, to the output; send; go on reading."""
        cdef ReplySlot* slot
        cdef uint8_t* into
        self.is_touched = False
        self.shared.work += WORK_PER_CALL
        while self.slots_head != NULL and self.slots_head.waiting == 0 and not self.is_closing:
            slot = self.slots_head
            if slot.begun_ns > 0:
                self.dialect.answered(slot.begun_ns)
            if slot.size > 0 and not (slot.is_droppable and self.is_unread()):
                into = queue_reserve(&self.output, slot.size)
                if into == NULL:
                    self.close("no memory for its replies")
                    return
                memcpy(into, slot.data, slot.size)
                queue_commit(&self.output, slot.size)
            self.is_closing = slot.is_closing
            self.slots_head = slot.next
            if self.slots_head == NULL:
                self.slots_tail = NULL
            self.slots_bytes -= slot_cost(slot)
            slot_free(slot)
        if self.is_held and self.slots_head == NULL:
            self.is_held = self.is_busy = False
        self.is_closing = self.is_closing or self.owes_nothing()
        if self.flow is not None and self.slots_head == NULL and self.flow.go_on():
            self.touch()
        if self.is_closed:
            return
        self.send()
        if self.shared.reply_memory_bytes > REPLY_MEMORY_BYTES_MAX:
            self.shared.shed_replies()
        if self.flow is not None and self.flow.has_more():
            self.touch()
        if not self.is_closed:
            self.resume()

    cdef bint is_unread(self) noexcept:
        # Whether the peer leaves answers where they are: more of them wait, here and in the socket,
        # than one that reads lets come together. A socket that cannot tell has none.
        cdef int unsent = 0
        if self.output.bytes <= UNREAD_ANSWER_BYTES_MAX:
            ioctl(self.fd, SIOCOUTQNSD, &unsent)
        return self.output.bytes + unsent > UNREAD_ANSWER_BYTES_MAX

    cdef bint owes_nothing(self) noexcept:
        # Whether a peer that says no more has all its answers, but for what is in the output.
        return self.has_ended and self.slots_head == NULL and not self.is_busy

    cdef void send(self):
        cdef SendStatus status
        if self.output.head != NULL:
            status = queue_send(&self.output, self.fd, SEND_BYTES_PER_TURN)
            if status == SEND_FAILED:
                self.close("reset by the peer")
                return
            self.active_ms = self.shared.monotonic_ms
            if status != SEND_DONE:
                self.watch(self.interest | EPOLLOUT)
                return
        if self.interest & EPOLLOUT:
            self.watch(self.interest & ~<uint32_t>EPOLLOUT)
        if self.is_closing:
            self.close("answered by closing")

    cdef void watch(self, uint32_t interest):
        cdef epoll_event event
        if interest == self.interest or self.is_closed:
            return
        self.interest = interest
        event.events = interest
        event.data.fd = self.fd
        epoll_ctl(self.shared.epoll_fd, EPOLL_CTL_MOD, self.fd, &event)

    cdef void close(self, str reason):
        """Close the socket and let go of everything owed on it."""
        cdef Flow flow
        if self.is_closed:
            return
        self.is_closed = True
        self.shared.connections.pop(self.fd, None)
        c_close(self.fd)
        wheel_clear(&self.shared.wheel, &self.timer)
        if self.parked is not None:
            self.parked.unpark()
            self.parked = None
        if self.flow is not None:
            flow = self.flow
            self.flow = None
            flow.ended()
        self.drop_replies()
        unseen_free(&self.unseen)
        kept_drop(&self.shared.memory, &self.kept)
        if self.shared.on_close is not None:
            self.shared.on_close(self, reason)

    cdef void drop_replies(self) noexcept:
        cdef ReplySlot* slot
        while self.slots_head != NULL:
            slot = self.slots_head
            self.slots_head = slot.next
            slot.connection = NULL
            if slot.waiting == 0:
                slot_free(slot)     # else by the last of those it waits for
        self.slots_tail = NULL
        queue_free(&self.output)

    def abort(self, str reason):
        """Close the connection from outside, with the reason that the log line gives."""
        self.close(reason)
