"""A connection: receives bytes, cuts frames, serves requests, sends replies in order.

Requests of a connection are started in order and answered in order. A request that cannot be
answered at once (one that waits for a log, or that Python serves) delays the later ones of its
connection. A write that waits for its sync delays all requests but writes, so that a request sees
everything that was written before it; a read waits for other replicas, too, for a time. Unanswered
writes are bounded by bytes.

    recv -> poller.receive, one buffer for all; the start of a frame is copied to `input`
                      |
                 take_frames -> NativeProtocol.serve
                                        |
    send <- OutputQueue <- drain: complete replies, in order <- ReplySlot, one per request
                             ^
                           Wait.write_frames: the frames of a stream, which continue until it ends,
                           after the earlier replies; no request is served meanwhile

The first bytes decide which NativeProtocol cuts and serves the connection's frames
(detection.pyx), unless the listener is pinned to a protocol.

A connection that this broker has opened to another one is read in the same way: its frames are
replies, and its NativeProtocol, of which each has its own, writes the requests. `Poller.sweep`
leaves it to that protocol to decide when its peer is too slow.

The poller decides when a connection is served (wire/poller). A connection that has something to
send, or requests that it could serve, adds itself to the poller's list `to_drain`.
"""

cimport cython
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC
from posix.unistd cimport close as c_close

from broker._native.kernel.clock cimport clock_ms
from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.histogram cimport histogram_add
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.turn cimport LOG_NOT_LED, may_acknowledge
from broker._native.wire.detection cimport protocol_of
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
from broker._native.wire.frame_memory cimport (
    HEAD_ONLY,
    INPUT_WAITING,
    input_drop,
    input_grow,
    input_put,
    memory_budget,
    memory_dequeue,
    memory_enqueue,
)
from broker._native.wire.output_queue cimport (
    SEND_DONE,
    SEND_FAILED,
    SEND_LATE,
    SendStatus,
    queue_commit,
    queue_free,
    queue_reserve,
    queue_send,
)
from broker._native.wire.poller_state cimport PollerState
from broker._native.wire.reply_slot cimport ReplySlot, slot_cost, slot_free, slot_new
from broker._native.wire.timer_wheel cimport wheel_clear, wheel_set
from broker._native.wire.tls cimport TLS_AGAIN, TLS_FAILED, TlsChannel
from broker._native.wire.unseen_writes cimport (
    UnseenList,
    UnseenWrites,
    unseen_add,
    unseen_free,
    unseen_prune,
    unseen_slot,
    unseen_wait,
)

from broker.model import limits, sasl_limits, tls_limits, unseen_limits

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int socket, void* into, size_t size, int flags)
    int MSG_DONTWAIT

cdef extern from "sys/ioctl.h" nogil:
    int ioctl(int fd, unsigned long request, ...)

cdef extern from "linux/sockios.h" nogil:
    unsigned long SIOCOUTQNSD

cdef enum:
    # PollerState.work, in units of an ordinary request.
    WORK_PER_CALL = 4               # a system call on a socket
    WORK_BYTES_SHIFT = 12           # 4 KiB of a longer request
    WORK_OF_HANDSHAKE = 256         # a step of a TLS handshake: the clock is read after it

cdef int HANDSHAKE_STEPS_PER_TURN = tls_limits.TLS_HANDSHAKE_STEPS_PER_TURN
cdef size_t LOGIN_RECEIVE_BYTES = sasl_limits.LOGIN_RECEIVE_BYTES
cdef size_t RECEIVE_BYTES_PER_TURN = limits.RECEIVE_BYTES_PER_TURN
cdef int64_t SEND_BYTES_PER_TURN = limits.SEND_BYTES_PER_TURN
cdef int64_t WAITING_REPLY_BYTES_PER_CONNECTION = limits.WAITING_REPLY_BYTES_PER_CONNECTION
cdef uint32_t UNSEEN_PARTITIONS_MAX = limits.UNSEEN_PARTITIONS_PER_CONNECTION_MAX
cdef int64_t REPLICAS_WAIT_MS = limits.REPLICAS_WAIT_MS
cdef int64_t UNCOPIED_WAIT_MS = unseen_limits.UNCOPIED_WAIT_MS
cdef int UNREAD_ANSWER_BYTES_MAX = limits.UNREAD_ANSWER_BYTES_MAX
cdef int64_t REPLY_QUEUE_BYTES_PER_CONNECTION = limits.REPLY_QUEUE_BYTES_PER_CONNECTION
cdef int64_t REPLY_MEMORY_BYTES_PER_CONNECTION = limits.REPLY_MEMORY_BYTES_PER_CONNECTION
cdef int64_t REPLY_MEMORY_SCARCE_BYTES = limits.REPLY_MEMORY_SCARCE_BYTES
cdef int64_t REPLY_MEMORY_BYTES_MAX = limits.REPLY_MEMORY_BYTES_MAX


cdef inline void meter_answer(PollerState poller, const ReplySlot* slot) noexcept:
    # Counts the time of a request whose answer is moved to the output. One that was not answered in
    # the turn that has read it has waited.
    histogram_add(&slot.meter.total, poller.clock_us - slot.read_us)
    if not slot.is_timed:
        histogram_add(
            &slot.meter.remote,
            0 if slot.read_us >= poller.turn_us else poller.clock_us - slot.read_us)


cdef class NativeProtocol:
    """How one wire protocol cuts a connection's bytes into requests, and serves them.

    `serve` is the native path; requests that it does not serve are left to `fallback`, by
    `hand_over` (pending_reply.pyx). One that has a `gate` has a login: on a listener that asks for
    it, the gate is the protocol of a connection until it has logged in (PendingReply.set_login).
    """

    def guard_with(self, NativeProtocol gate not None):
        """Let `gate` serve the connections that have not logged in."""
        self.gate = gate
        gate.opened = self

    cdef Verdict recognizes(self, const uint8_t* data, size_t size) noexcept:
        """Return whether a connection that begins with these bytes, one or more, is of it."""
        return VERDICT_NO

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept:
        """Find the first frame; return its bytes, 0 if it is incomplete, < 0 if it is invalid."""
        return 0

    cdef int64_t announced(self, const uint8_t* data, size_t size) noexcept:
        """Return the size of the frame that begins here; 0 if it is unknown or not allowed."""
        return 0

    cdef bint is_write(self, Cursor frame) noexcept:
        """Return whether a request only appends, and may start before earlier writes are visible.

        The frame may be incomplete.
        """
        return False

    cdef bint is_read(self, Cursor frame) noexcept:
        """Return whether a request's answer has records of logs, or their ends."""
        return False

    cdef bint serve(self, Connection connection, Cursor frame):
        """Start one request; return False if the connection was closed.

        A frame may be served in several turns: as long as it is not done, `serve` sets
        `connection.is_partly_served`, and is called again with the same frame, elsewhere in memory.
        If it has also begun a wait, that is after its end.
        """
        return False

    cdef int foresee(self, Connection connection, Cursor rest) except -1:
        """Prepare for the requests behind a frame that is not done and waits; nothing is served.

        `rest` is what has been received of them.
        """
        return 0

    cdef void record_latency(self, int64_t begun_ns) noexcept:
        """Record the latency of a request whose reply is being sent, if its slot has begun_ns."""

    cdef list meters(self):
        """Return (number of the API, its requests) for each API that is measured."""
        return []

    def request_meters(self):
        """Return (number of the API, MeterState) for each API that has had requests."""
        return self.meters()

    cdef void refuse(self, Connection connection, int64_t cut):
        """Answer a frame that `cut` found invalid; the connection ends."""
        connection.close("not a frame of its protocol")

    cdef void serve_last(self, Connection connection, Cursor rest):
        """Serve the unfinished frame before an EOF, if the protocol allows that."""

    cdef void lost(self, Connection connection, str reason):
        """Handle the end of a connection that this broker had opened."""


cdef class Wait:
    """An answer that is not complete yet: it waits for logs or its timer, or is a stream of frames.

    It begins with `Connection.begin_wait`, or with `PendingReply.begin`, and ends with
    `Connection.end_wait`, or with its connection. The connection serves no later request meanwhile.
    Its WatchOwner, if it watches logs, has the connection as `object`.
    """

    cdef void woken(self):
        """Handle a change of a log that it watches."""

    cdef void due(self):
        """Handle the timer of its connection, which it had set and which has expired."""

    cdef void ended(self):
        """Release everything: it has ended. `connection` is None."""

    cdef bint write_frames(self):
        """Add frames of a stream to the output; return whether more could be added at once."""
        return False

    cdef bint has_more(self) noexcept:
        """Return whether `write_frames` would add frames now."""
        return False

    cdef void stop(self):
        """End a stream: the broker is stopping."""


@cython.final
@cython.no_gc_clear    # `poller` would be cleared before replies are subtracted from its sums
cdef class Connection:
    """One socket: its unserved input, its pending replies, its unsent output."""

    def __cinit__(self, PollerState poller, int fd, str peer_host):
        self.poller = poller
        self.fd = fd
        self.peer_host = peer_host
        self.interest = EPOLLIN | EPOLLRDHUP
        self.timer.owner = self.input.owner = <void*>self
        self.output.all_memory_bytes = &poller.reply_memory_bytes
        self.active_ms = clock_ms(CLOCK_MONOTONIC)

    def __dealloc__(self):
        # Closed long ago, unless the poller itself was dropped.
        self.drop_replies()
        unseen_free(&self.unseen)
        free(self.input.data)

    def __repr__(self):
        return f"<Connection {self.fd} from {self.peer_host}>"

    @property
    def frame_started_ms(self):
        """Since when a frame is incomplete, on the monotonic clock; 0: none is."""
        return self.input.started_ms

    # ---- in -----------------------------------------------------------------------------------

    cdef void on_event(self, uint32_t events):
        if self.is_closed:
            return
        if events & (EPOLLERR | EPOLLHUP):
            self.close("reset by the peer")
            return
        if self.tls is not None and not self.tls.is_established:
            self.shake_hands(events)
            return
        if events & EPOLLOUT:
            self.request_drain()
        if events & EPOLLRDHUP and (self.is_busy or not events & EPOLLIN):
            if self.protocol is None or not self.protocol.serves_half_closed or (
                    self.wait is not None and self.wait.is_stream):
                self.close("closed by the peer")
            else:
                # Its earlier bytes and its EOF are read after the current request.
                self.watch(self.interest & ~<uint32_t>(EPOLLIN | EPOLLRDHUP))
        elif events & EPOLLIN:
            self.end_wait_by_input()
            if self.is_busy or self.is_full() or self.input.state == INPUT_WAITING:
                # Not now: bytes wait in the kernel, and only a hang-up is reported.
                self.watch(self.interest & ~<uint32_t>EPOLLIN)
            elif not self.has_unserved:
                self.read()

    cdef void shake_hands(self, uint32_t events):
        """Take a step of the TLS handshake, unless this turn has had its share of them."""
        cdef TlsChannel tls = self.tls
        cdef int status
        if self.poller.handshake_steps >= HANDSHAKE_STEPS_PER_TURN:
            return      # it is reported again
        self.poller.handshake_steps += 1
        self.poller.work += WORK_OF_HANDSHAKE
        status = tls.shake_hands(self.fd, self.poller.scratch)
        if status == TLS_FAILED:
            self.fail_tls()
            return
        self.watch(self.interest | EPOLLOUT if tls.has_unsent()
                   else self.interest & ~<uint32_t>EPOLLOUT)
        if status == TLS_AGAIN:
            return
        self.active_ms = self.poller.monotonic_ms
        tls.on_secured(self)
        if not self.is_closed and self.tls.has_input():
            self.request_drain()

    cdef void fail_tls(self):
        if self.tls.is_established:
            self.close(self.tls.reason)
            return
        if self.tls.on_failed is not None:
            self.tls.on_failed(self.peer_host, self.tls.reason)
        self.close("no TLS connection")

    cdef bint has_unsent(self) noexcept:
        """Return whether something waits for its socket."""
        return self.output.head != NULL or (self.tls is not None and self.tls.has_unsent())

    cdef bint is_readable(self) noexcept:
        """Return whether nothing of its own prevents that it reads."""
        return not (self.is_busy or self.has_unserved or self.is_full()
                    or self.input.state == INPUT_WAITING)

    cdef bint is_full(self) noexcept:
        return (self.is_closing or self.input_ended
                or self.slots_bytes > WAITING_REPLY_BYTES_PER_CONNECTION
                or self.output.bytes > REPLY_QUEUE_BYTES_PER_CONNECTION
                or self.output.memory_bytes > (
                    0 if self.poller.reply_memory_bytes > REPLY_MEMORY_SCARCE_BYTES
                    else REPLY_MEMORY_BYTES_PER_CONNECTION))

    cdef void read(self):
        """Receive what is there, up to the limit of a turn, and serve the whole frames in it."""
        while self.receive() and not self.is_closed:
            pass
        if self.tls is not None and not self.is_closed and self.tls.has_input():
            self.request_drain()    # epoll does not know of it

    cdef bint receive(self):
        # One recv. True if it got only the head of a long frame whose rest has probably arrived.
        cdef PollerState poller = self.poller
        cdef uint8_t* into = poller.receive
        cdef size_t have = self.input.size, budget = RECEIVE_BYTES_PER_TURN
        cdef bint is_own = self.input.target > 0
        cdef ssize_t count
        cdef Py_ssize_t used
        if is_own:
            into = self.input.data
            budget = self.input.target
        elif self.expects_long and have < HEAD_ONLY:
            # The last frame was long: read the head of this one, then the rest into its own buffer.
            budget = HEAD_ONLY
        elif self.needs_login:
            budget = min(budget, max(LOGIN_RECEIVE_BYTES, have + HEAD_ONLY))
        budget = memory_budget(&poller.memory, &self.input, budget)
        if budget <= have:
            # It waits in a queue for memory, and its bytes in the kernel.
            memory_enqueue(&poller.memory, &self.input, poller.monotonic_ms)
            self.watch(self.interest & ~<uint32_t>EPOLLIN)
            return False
        if have > 0 and not is_own:
            memcpy(into, self.input.data, have)
        poller.work += WORK_PER_CALL
        if self.tls is None:
            count = recv(self.fd, into + have, budget - have, MSG_DONTWAIT)
        else:
            count = self.tls.receive(
                self.fd, into + have, min(budget - have, RECEIVE_BYTES_PER_TURN), poller.scratch,
                self.needs_login)
            poller.work += <int>(max(count, 0) >> WORK_BYTES_SHIFT) + <int>self.tls.opened
        if self.tls is not None and count < 0:
            if count == TLS_FAILED:
                self.fail_tls()
            return False
        if count < 0:
            if errno != EAGAIN and errno != EINTR:
                self.close("reset by the peer")
            return False
        if count == 0:
            self.on_eof()
            return False
        self.active_ms = poller.monotonic_ms
        have += <size_t>count
        poller.bytes_received += <uint64_t>count
        if is_own:
            input_grow(&poller.memory, &self.input, have)
            if have < self.input.target:
                return False
        used = self.take_frames(into, have)
        if used < 0 or self.is_closed:
            return False
        if is_own:
            # The buffer held exactly one frame. It was served, or stays whole for a later turn.
            if used > 0:
                input_drop(&poller.memory, &self.input)
            else:
                memory_dequeue(&poller.memory, &self.input)
        elif <size_t>used < have:
            self.store_input(into + used, have - <size_t>used, used == 0 and not self.has_unserved)
        else:
            input_drop(&poller.memory, &self.input)
            self.expects_long = False
        return self.expects_long and budget == HEAD_ONLY and not (
            self.is_busy or self.is_full() or self.has_unserved)

    cdef void store_input(self, const uint8_t* data, size_t size, bint is_same_frame):
        # Stores bytes that are not served yet: the start of a frame, or frames that must wait.
        cdef int64_t announced = 0
        if self.protocol is not None:
            announced = self.protocol.announced(data, size)
        self.expects_long = announced > <int64_t>max(size, RECEIVE_BYTES_PER_TURN // 2)
        if not input_put(&self.poller.memory, &self.input, data, size, <size_t>announced,
                         is_same_frame, self.poller.monotonic_ms):
            self.close("no memory for its frame")

    cdef void resume_reading(self):
        """Watch for input again, unless something of its own prevents that."""
        if not self.is_busy and not self.is_full() and self.input.state != INPUT_WAITING:
            self.watch(self.interest | EPOLLIN)

    cdef void restart_frame_timer(self) noexcept:
        """Restart the timer of its frame: so far the broker itself did not read the rest."""
        self.input.started_ms = self.active_ms = self.poller.monotonic_ms

    cdef bint detect_protocol(self, const uint8_t* data, size_t size):
        # Detects it by the first bytes. False: not decided yet, or closed since it is not served
        # here.
        cdef bint is_decided = False
        if self.named is not None:
            return self.begin_protocol(self.named)
        self.protocol = protocol_of(self.poller.protocols, data, size, &is_decided)
        if not is_decided:
            return False
        if self.protocol is None:
            self.poller.closed_undecided += 1
            self.close("unknown protocol")
            return False
        return self.begin_protocol(self.protocol)

    cdef bint begin_protocol(self, NativeProtocol protocol):
        # Takes its protocol, or the gate of it. False: closed, since it could never log in.
        protocol.connections += 1
        self.protocol = protocol
        if not self.needs_login:
            return True
        if protocol.gate is not None:
            self.protocol = protocol.gate
        elif self.session.is_identified:
            self.needs_login = False
        else:
            self.close("its listener asks for a login, and its protocol has none")
            return False
        return True

    cdef Py_ssize_t take_frames(self, uint8_t* data, size_t size):
        """Serve whole frames until one must wait; return the bytes used, or -1 if it closed.

        If they wait only because the time budget is used up, the connection requests a drain: they
        are served in the next turn.
        """
        cdef size_t used = 0
        cdef int64_t taken
        cdef Cursor frame, rest
        cdef Wait before
        if self.protocol is None and not self.detect_protocol(data, size):
            return -1 if self.is_closed else 0
        self.has_unserved = False
        while used < size:
            if self.is_busy or self.is_full():
                self.has_unserved = True
                self.end_wait_by_input()    # it is served in the drain that follows
                break
            if self.poller.check_budget():
                self.has_unserved = True
                self.request_drain()
                break
            taken = self.protocol.cut(data + used, size - used, &frame)
            if taken == 0:
                break
            if taken < 0:
                self.input_ended = True
                self.protocol.refuse(self, taken)
                return -1 if self.is_closed else <Py_ssize_t>size
            if self.hold_back(frame):
                self.has_unserved = True
                break
            if self.is_closed:
                return -1
            if not self.is_partly_served:       # otherwise it has been counted
                if self.protocol.is_metered and self.poller.find_quota is not None and (
                        self.protocol.is_write(frame)):
                    self.written_bytes += taken
                self.protocol.requests += 1
            self.is_partly_served = False
            self.poller.work += 1 + <int>(taken >> WORK_BYTES_SHIFT)
            before = self.wait
            if not self.protocol.serve(self, frame):
                return -1
            if self.is_partly_served:
                self.has_unserved = True
                if self.wait is before:         # a fetcher's connection has one all the time
                    self.request_drain()
                else:
                    rest.next = data + used + taken
                    rest.left = size - used - <size_t>taken
                    self.protocol.foresee(self, rest)
                break
            used += <size_t>taken
        return <Py_ssize_t>used

    cdef bint note_unseen(self, PartitionLog log, int64_t end_offset) noexcept:
        """Note a write that no reply waits for; return False without memory."""
        return log.high_watermark >= end_offset or unseen_add(&self.unseen, log, end_offset)

    cdef bint hold_back(self, Cursor frame):
        """Delay a request until the earlier writes are visible; return whether it is delayed.

        A write is delayed only if UNSEEN_PARTITIONS_MAX partitions have writes that no reply waits
        for. Only a read waits for other brokers.
        """
        cdef UnseenWrites* unseen = &self.unseen
        cdef bint is_read = unseen.elsewhere.count > 0 and self.protocol.is_read(frame)
        if self.slots_waiting == 0 and unseen.here.count == 0 and not is_read:
            return False
        if unseen.here.count < UNSEEN_PARTITIONS_MAX and self.protocol.is_write(frame):
            return False
        if not self.wait_for_unseen(&unseen.here, REPLICAS_WAIT_MS) or (
                is_read and not self.wait_for_unseen(&unseen.elsewhere, UNCOPIED_WAIT_MS)):
            return False
        if self.slots_waiting == 0:
            return False
        self.is_held = self.is_busy = True
        return True

    cdef bint wait_for_unseen(self, UnseenList* writes, int64_t wait_ms):
        # Adds a slot that waits for the writes without one. False: no memory, so it closed.
        cdef ReplySlot* slot
        unseen_prune(writes)
        if writes.count == 0:
            return True
        slot = unseen_slot(writes)
        if slot == NULL:
            self.close("no memory for its reply")
            return False
        self.enqueue(slot)
        unseen_wait(writes, slot, wait_ms)
        return True

    cdef void on_eof(self):
        """Handle the peer's EOF. One that only half-closed gets its replies first."""
        cdef Cursor rest
        if self.protocol is None or not self.protocol.serves_half_closed:
            self.close("closed by the peer")
            return
        self.watch(self.interest & ~<uint32_t>(EPOLLIN | EPOLLRDHUP))
        if self.input.data != NULL:
            rest.next = self.input.data
            rest.left = self.input.size
            if self.hold_back(rest):
                return      # EOF is read again once those writes are visible
            if self.is_closed:
                return
            self.input_ended = True
            self.protocol.serve_last(self, rest)
            input_drop(&self.poller.memory, &self.input)
        self.input_ended = True
        self.request_drain()

    cdef void enqueue(self, ReplySlot* slot):
        slot.connection = <void*>self
        slot.broker_epoch = self.poller.turn.broker_epoch
        if slot.fail != NULL:
            slot.acks = slot.waiting
        self.slots_bytes += slot_cost(slot)
        if self.slots_tail == NULL:
            self.slots_head = slot
        else:
            self.slots_tail.next = slot
        self.slots_tail = slot
        if slot.waiting == 0:
            self.request_drain()
        else:
            self.slots_waiting += 1

    cdef void reply(self, const uint8_t* data, size_t size):
        """Queue a complete answer, in the order of requests."""
        cdef ReplySlot* slot = self.complete_slot(data, size)
        if slot != NULL:
            self.enqueue(slot)

    cdef ReplySlot* complete_slot(self, const uint8_t* data, size_t size):
        """Return a slot with these bytes; NULL without memory, and then it is closed."""
        cdef ReplySlot* slot = slot_new(<uint32_t>size, 0)
        if slot == NULL:
            self.close("no memory for its reply")
            return NULL
        memcpy(slot.data, data, size)
        slot.size = <uint32_t>size
        return slot

    @property
    def served_by(self):
        """The Python protocol of its requests; None before its first bytes have told which."""
        return None if self.protocol is None else self.protocol.fallback

    cdef void begin_wait(self, Wait wait):
        """Serve no later request until an answer is complete."""
        self.wait = wait
        self.poller.parked += not self.is_outbound
        wait.connection = self
        self.is_busy = True

    cdef void end_wait(self):
        """End the wait; later requests are served once the connection is drained."""
        cdef Wait wait = self.wait
        wheel_clear(&self.poller.wheel, &self.timer)
        self.wait = None
        self.poller.parked -= not self.is_outbound
        wait.connection = None
        self.is_busy = False
        wait.ended()

    cdef void end_wait_by_input(self):
        """Complete the answer that waits, if it is one that the connection's next bytes end."""
        cdef Wait wait = self.wait    # it ends, and only this holds it then
        if wait is not None and wait.ends_by_input:
            wait.due()

    cdef void set_timer(self, int64_t delay_ms) noexcept:
        """Call `due` of the wait after a time; the timer must not be set."""
        wheel_set(&self.poller.wheel, &self.timer, self.poller.monotonic_ms + delay_ms)

    cdef void hasten_timer(self, int64_t delay_ms) noexcept:
        """Call `due` of the wait, whose timer is set, after a time at the latest."""
        cdef int64_t deadline_ms = self.poller.monotonic_ms + delay_ms
        if self.timer.is_set and deadline_ms < self.timer.deadline_ms:
            wheel_clear(&self.poller.wheel, &self.timer)
            wheel_set(&self.poller.wheel, &self.timer, deadline_ms)

    cdef void reset_timer(self, int64_t delay_ms) noexcept:
        """Call `due` of the wait after a time from now instead of when it was set for, if it was.
        """
        wheel_clear(&self.poller.wheel, &self.timer)
        self.set_timer(delay_ms)

    cdef void end_stream(self, bytes last, bint is_last):
        """End the stream with `last`, which may be empty; close, or serve the later requests."""
        cdef ReplySlot* slot
        self.end_wait()
        slot = self.complete_slot(<const uint8_t*><const char*>last, <size_t>len(last))
        if slot == NULL:
            return
        slot.is_closing = self.is_busy = is_last
        self.enqueue(slot)
        self.poller.turn.request_end()

    cdef void resume(self):
        # Serves the input that was stored while a request delayed it, then reads again.
        cdef Py_ssize_t used
        cdef uint8_t* data = self.input.data
        cdef size_t size = self.input.size
        if self.is_closed or self.is_busy or self.is_full():
            return
        if data != NULL:
            used = self.take_frames(data, size)
            if used < 0 or self.is_closed:
                return
            if <size_t>used == size:
                input_drop(&self.poller.memory, &self.input)
            elif used > 0:
                self.store_input(data + used, size - <size_t>used, False)
            else:
                self.restart_frame_timer()
        self.resume_reading()

    # ---- out ----------------------------------------------------------------------------------

    cdef void request_drain(self):
        if not self.is_drain_requested and not self.is_closed:
            self.poller.to_drain.append(self)
            self.is_drain_requested = True

    cdef void drain(self):
        """Move complete replies, in order, to the output; send it; serve and read again."""
        cdef ReplySlot* slot
        cdef uint8_t* into
        cdef Wait wait
        cdef int64_t queued_before = self.output.bytes
        self.is_drain_requested = False
        self.poller.work += WORK_PER_CALL
        while self.slots_head != NULL and self.slots_head.waiting == 0 and not self.is_closing:
            slot = self.slots_head
            if slot.begun_ns > 0:
                self.protocol.record_latency(slot.begun_ns)
            if slot.meter != NULL:
                meter_answer(self.poller, slot)
            if slot.acks > 0:
                self.check_lease(slot)
            if slot.needs_lease and not self.needs_lease:
                self.needs_lease = True
                self.broker_epoch = slot.broker_epoch
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
        # A peer that has sent EOF has all its answers, except those in the output.
        self.is_closing = self.is_closing or (
            self.input_ended and self.slots_head == NULL and not self.is_busy)
        wait = self.wait    # it may end, and only this holds it then
        if wait is not None and self.slots_head == NULL and wait.write_frames():
            self.request_drain()
        if self.is_closed:
            return
        if self.metered != NULL:
            histogram_add(&self.metered.total, self.poller.clock_us - self.metered_us)
            self.metered = NULL
        if self.poller.find_quota is not None:
            self.read_bytes += self.output.bytes - queued_before
        self.send()
        if self.poller.reply_memory_bytes > REPLY_MEMORY_BYTES_MAX:
            self.poller.shed_replies()
        if self.wait is not None and self.wait.has_more():
            self.request_drain()
        if not self.is_closed:
            self.resume()
        if (self.tls is not None and not self.is_closed and self.is_readable()
                and self.tls.has_input()):
            self.read()

    cdef void check_lease(self, ReplySlot* slot) noexcept:
        # Lets a reply acknowledge its writes only if others cannot lead their partitions yet.
        cdef int32_t i
        if may_acknowledge(self.poller.turn, slot.broker_epoch):
            slot.needs_lease = True
            return
        for i in range(slot.acks):
            if slot.fail != NULL:     # the failure of one may have replaced the whole reply
                slot.fail(slot, slot.waiters[i].place, LOG_NOT_LED)

    cdef int64_t replies_until_ns(self) noexcept:
        # Until when what is in the output may be sent.
        if not self.needs_lease:
            return INT64_MAX
        if self.broker_epoch != self.poller.turn.broker_epoch:
            return 0
        return self.poller.turn.serves_until_ns

    cdef bint is_unread(self) noexcept:
        # Whether the peer does not read its answers: more bytes are unsent, here and in the socket,
        # than accumulate with a peer that reads. A socket that cannot report them counts as empty.
        cdef int unsent = 0
        if self.output.bytes <= UNREAD_ANSWER_BYTES_MAX:
            ioctl(self.fd, SIOCOUTQNSD, &unsent)
        return self.output.bytes + unsent > UNREAD_ANSWER_BYTES_MAX

    cdef void send(self):
        cdef SendStatus status
        cdef int64_t unsent = self.output.bytes
        if self.has_unsent():
            if self.tls is None:
                status = queue_send(
                    &self.output, self.fd, SEND_BYTES_PER_TURN, self.replies_until_ns())
            else:
                status = self.tls.send(
                    &self.output, self.fd, SEND_BYTES_PER_TURN, self.replies_until_ns(),
                    self.poller.scratch)
            if status == SEND_LATE:
                # They may have waited here while the process was stopped. A client whose connection
                # ends knows as much of its requests as after an error on which it retries.
                self.close("the broker's lease ended before its replies were sent")
                return
            if status == SEND_FAILED:
                self.close("reset by the peer")
                return
            self.active_ms = self.poller.monotonic_ms
            self.poller.bytes_sent += <uint64_t>(unsent - self.output.bytes)
            if status != SEND_DONE:
                if self.unsent_us == 0:
                    self.unsent_us = self.poller.clock_us
                self.watch(self.interest | EPOLLOUT)
                return
            histogram_add(
                &self.poller.sends,
                0 if self.unsent_us == 0 else self.poller.clock_us - self.unsent_us)
            self.unsent_us = 0
        self.needs_lease = False
        if self.interest & EPOLLOUT:
            self.watch(self.interest & ~<uint32_t>EPOLLOUT)
        if self.is_closing:
            self.close("closed after its last reply")

    cdef void watch(self, uint32_t interest):
        cdef epoll_event event
        if interest == self.interest or self.is_closed:
            return
        self.interest = interest
        event.events = interest
        event.data.fd = self.fd
        epoll_ctl(self.poller.epoll_fd, EPOLL_CTL_MOD, self.fd, &event)

    cdef void close(self, str reason):
        """Close the socket and drop everything that is pending on it."""
        if self.is_closed:
            return
        self.is_closed = True
        self.poller.connections.pop(self.fd, None)
        if self.tls is not None:
            self.tls.finish(self.fd)
        c_close(self.fd)
        if self.wait is not None:
            self.end_wait()
        self.drop_replies()
        unseen_free(&self.unseen)
        input_drop(&self.poller.memory, &self.input)
        if self.is_outbound:
            self.protocol.lost(self, reason)
        elif self.poller.on_close is not None:
            self.poller.on_close(self, reason)

    cdef void drop_replies(self) noexcept:
        cdef ReplySlot* slot
        while self.slots_head != NULL:
            slot = self.slots_head
            self.slots_head = slot.next
            slot.connection = NULL
            slot.meter = NULL       # it may wait for longer than the protocol exists
            if slot.waiting == 0:
                slot_free(slot)     # otherwise the last write it waits for frees it
        self.slots_tail = NULL
        queue_free(&self.output)

    def abort(self, str reason):
        """Close the connection from outside, with the reason that the log line gives."""
        self.close(reason)
