"""The turn of the event loop: which connections are served, and what follows from their changes.

All sockets are in one epoll set of the poller, whose descriptor is in the event loop: one callback
per turn serves everything that is ready, however many connections that are. A turn is

    read     receive, serve whole frames
    flush    write staged batches, hand dirty logs to the commit thread
    finish   complete the acknowledgements and the waits that can now be answered
    send     all replies of a connection in one call, then serve its delayed requests
    hand over    the requests left to Python, which begins some of them

A turn has a time budget: what was not served within it is served first in the next turn. Python
comes last and has a short budget of its own: requests that it has not begun by then wait until the
sockets have been polled again.
"""

cimport cython
from libc.errno cimport errno
from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, itimerspec
from posix.unistd cimport close as c_close, read as c_read

from broker._native.kernel.clock cimport clock_ms, monotonic_us
from broker._native.kernel.histogram cimport histogram_state
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport LOG_OK, AckWaiter, Turn, WatchOwner
from broker._native.wire.buffer_pool cimport pool_trim
from broker._native.wire.connection cimport Connection, NativeProtocol, Wait
from broker._native.wire.epoll cimport (
    EPOLL_CLOEXEC,
    EPOLL_CTL_ADD,
    EPOLLIN,
    epoll_create1,
    epoll_ctl,
    epoll_event,
    epoll_wait,
)
from broker._native.wire.frame_memory cimport (
    HEAD_ONLY,
    INPUT_ADMITTED,
    INPUT_WAITING,
    InputBuffer,
    input_is_slow,
    memory_admit_next,
    memory_wait_ms,
)
from broker._native.wire.mute cimport Mute, meter
from broker._native.wire.output_queue cimport CHUNK_MIN
from broker._native.wire.pending_reply cimport PendingReply
from broker._native.wire.poller_state cimport PollerState
from broker._native.wire.reply_slot cimport ReplySlot, slot_free
from broker._native.wire.timer_wheel cimport Timer, wheel_due, wheel_init, wheel_next
from broker._native.wire.tls cimport TlsChannel

import logging

from broker.model import limits, tls_limits

logger = logging.getLogger(__name__)

cdef extern from "sys/timerfd.h" nogil:
    int timerfd_create(int clock, int flags)
    int timerfd_settime(int fd, int flags, const itimerspec* value, itimerspec* old)
    int TFD_NONBLOCK, TFD_CLOEXEC, TFD_TIMER_ABSTIME

cdef enum:
    EVENTS_MAX = 256

cdef int POLLS_PER_TURN = limits.POLLS_PER_TURN
cdef int64_t CONTENDED_FRAME_BYTES_PER_MS_MIN = limits.CONTENDED_FRAME_BYTES_PER_MS_MIN
cdef int64_t FRAME_BYTES_PER_MS_MIN = limits.FRAME_BYTES_PER_MS_MIN
cdef int64_t REPLY_MEMORY_BYTES_MAX = limits.REPLY_MEMORY_BYTES_MAX
cdef int64_t HANDSHAKE_MS_MAX = tls_limits.TLS_HANDSHAKE_MS_MAX
cdef int64_t PYTHON_SHARE_US = limits.PYTHON_SHARE_US
cdef int64_t TURN_SHARE_US = limits.TURN_SHARE_US
assert EVENTS_MAX == limits.EVENTS_PER_POLL


cdef bint blocks_others(Connection connection, int64_t now_ms, int64_t stalled_ms_max) noexcept:
    # Whether it holds memory that others wait for, while its frame has stalled or it is mute.
    if connection.input.state == INPUT_WAITING:
        return False
    if isinstance(connection.wait, Mute):
        return connection.input.counted > HEAD_ONLY
    if connection.input.state != INPUT_ADMITTED and (
            connection.input.counted <= HEAD_ONLY or connection.is_busy or connection.has_unserved):
        return False
    return now_ms - connection.active_ms > stalled_ms_max or input_is_slow(
        &connection.input, now_ms, stalled_ms_max, CONTENDED_FRAME_BYTES_PER_MS_MIN)


cdef bint is_streaming(Connection connection) noexcept:
    return connection.wait is not None and connection.wait.is_stream


@cython.final
cdef class Poller(PollerState):
    """The broker's connections and what one turn of the loop does with them."""

    def __cinit__(self, Turn turn, TopicTable topics):
        self.turn = turn
        self.topics = topics
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        self.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self.epoll_fd < 0 or self.timer_fd < 0:
            raise OSError(errno, "epoll or timerfd")
        self.timer_armed_ms = -1
        self.budget_us = TURN_SHARE_US
        self.round = 1
        self.steady_base_ms = clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_MONOTONIC)
        self.read_clocks()
        wheel_init(&self.wheel, self.monotonic_ms)
        self.watch_fd(self.timer_fd, EPOLLIN)
        if turn.commit is not None:
            self.watch_fd(turn.commit.event_fd, EPOLLIN)

    def __dealloc__(self):
        if self.epoll_fd > 0:
            c_close(self.epoll_fd)
        if self.timer_fd > 0:
            c_close(self.timer_fd)

    cdef int watch_fd(self, int fd, uint32_t events) except -1:
        cdef epoll_event event
        event.events = events
        event.data.fd = fd
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0:
            raise OSError(errno, "epoll_ctl")
        return 0

    def serve_with(self, protocols, dispatch, on_close):
        """Serve these protocols (name → NativeProtocol), and call Python for all other requests.

        The first bytes of a connection are compared in this order (detection.pyx).
        `dispatch` is called with a list of new PendingReply objects. It begins as many of all that
        it has as its time budget allows, and returns whether some are left; it is called again for
        those. `on_close` is called with a Connection and the reason, for each one that is closed.
        """
        cdef NativeProtocol protocol
        self.protocols = {}
        for name, protocol in protocols.items():
            self.protocols[name] = protocol
        self.dispatch = dispatch
        self.on_close = on_close

    def limit_clients(self, find_quota, uint64_t epoch):
        """Apply quotas from the next request of each connection on; None: there are none.

        `find_quota` is called with the session and the client id (bytes or None) of a connection,
        and returns a ClientQuota of this epoch, which grows with each change of the quotas.
        """
        self.find_quota = find_quota
        self.quota_epoch = epoch

    def add(self, int fd, str peer_host, session, protocol=None, TlsChannel tls=None, *,
            bint needs_login=False):
        """Take over an accepted non-blocking socket, whose descriptor the poller owns from here on.

        Its first bytes decide its protocol, unless one is named. With `tls` they are encrypted.
        With `needs_login` it is served only once it has logged in; one whose protocol has no login
        is closed, unless its session `is_identified`.
        """
        cdef Connection connection = Connection(self, fd, peer_host)
        connection.session = session
        connection.tls = tls
        connection.needs_login = needs_login
        self.accepted += 1
        self.watch_fd(fd, connection.interest)
        self.connections[fd] = connection
        if protocol is not None:
            connection.named = self.protocols[protocol]
            # With TLS a certificate may have to tell first who it is.
            if tls is None:
                connection.begin_protocol(connection.named)
        return connection

    def add_outbound(
            self, int fd, str peer_host, NativeProtocol protocol not None, TlsChannel tls=None):
        """Take over a non-blocking socket that is connected to another broker, as `add` does.

        `protocol` serves what the peer sends, and is told of the end of the connection. The
        handshake of `tls` is done.
        """
        cdef Connection connection = Connection(self, fd, peer_host)
        connection.tls = tls
        connection.is_outbound = True
        connection.protocol = protocol
        self.watch_fd(fd, connection.interest)
        self.connections[fd] = connection
        return connection

    def __call__(self):
        """Serve what is ready: the event loop calls this when the epoll set is readable."""
        cdef int64_t ends_us = monotonic_us() + self.budget_us
        cdef int _round
        for _round in range(POLLS_PER_TURN):
            self.start_budget(ends_us)
            if self.poll() <= 0:
                return
            self.end_turn()
            if monotonic_us() >= ends_us:
                return

    cdef int poll(self) except -1:
        # Serves natively what is ready; returns how many events there were.
        cdef epoll_event events[EVENTS_MAX]
        cdef int count = epoll_wait(self.epoll_fd, events, EVENTS_MAX, 0)
        if count <= 0:
            return 0
        self.polls += 1
        self.read_clocks()
        self.turn.is_running = True
        try:
            self.take_events(events, count)
        finally:
            self.turn.is_running = False
        return count

    cdef void take_events(self, epoll_event* events, int count):
        # Connections that are not served are reported again, and served before those already served
        # in this round. A round ends when no ready connection is left that was not served in it.
        cdef int i, fd, served_before = 0
        cdef bint is_over = False
        cdef Connection connection
        for i in range(count):
            fd = events[i].data.fd
            if fd == self.timer_fd:
                self.take_timer()
                continue
            if fd == self.turn.commit.event_fd:
                self.turn.poll_synced()
                continue
            connection = <Connection>self.connections.get(fd)
            if connection is None:
                continue
            if connection.round == self.round:
                events[served_before] = events[i]
                served_before += 1
            elif not is_over:
                is_over = self.serve(connection, events[i].events)
        if is_over:
            return
        self.round += 1
        for i in range(served_before):
            connection = <Connection>self.connections.get(events[i].data.fd)
            if connection is not None and self.serve(connection, events[i].events):
                return

    cdef bint serve(self, Connection connection, uint32_t events):
        # Returns whether the time budget is used up.
        connection.round = self.round
        try:
            connection.on_event(events)
            if self.find_quota is not None:
                meter(connection)
        except Exception:
            self.close_after_error(connection)
        return self.check_budget()

    cdef void close_after_error(self, Connection connection):
        # Most likely there was no memory for it. All other connections continue.
        logger.exception("a connection is closed after an internal error")
        try:
            connection.close("internal error")
        except Exception:
            logger.exception("a connection could not be closed")

    cdef void take_timer(self):
        # Without the read it stays readable, and the loop never sleeps.
        cdef uint64_t times
        c_read(self.timer_fd, &times, sizeof(times))
        self.timer_armed_ms = -1

    def read_clocks(self):
        """Read the clocks, whose time is that of the whole turn."""
        self.turn_us = self.clock_us = monotonic_us()
        self.monotonic_ms = self.turn_us // 1000
        self.turn.now_ms = clock_ms(CLOCK_REALTIME)
        self.turn.steady_ms = self.monotonic_ms + self.steady_base_ms

    def end(self):
        """Flush, complete and send what was changed outside of the connections' own turns.

        The loop calls it once per request (Turn.request_end). Turns of the connections do not clear
        that request: otherwise each of them would cause one more call. The sockets are polled
        first, since the call may only be for more requests of Python.
        """
        self.turn.is_requested = False
        self.start_budget(monotonic_us() + self.budget_us)
        if self.poll() == 0:
            self.read_clocks()
        self.end_turn()

    cdef void end_turn(self):
        self.turn.is_running = True
        try:
            self.run_end()
        finally:
            self.turn.is_running = False   # even after an error the next turn must come
        if (self.has_python_requests() or self.to_drain or self.turn.dirty
                or self.turn.finished != NULL or self.turn.woken != NULL):
            self.turn.request_end()
        self.arm()

    cdef void run_end(self):
        cdef int rounds = 0
        cdef int64_t python_until_us = 0
        self.expire()
        # Serving a delayed frame or a request in Python can create new work; what is left after a
        # few rounds is left to the next turn.
        self.clock_us = monotonic_us()
        self.start_budget(self.clock_us + self.budget_us)
        while rounds < POLLS_PER_TURN and not self.is_over_budget:
            rounds += 1
            self.turn.flush()
            self.wake_waits()      # first: consumers wait longer for records than their producers
            self.finish_acks()
            if self.to_drain:
                self.drain_connections()
            elif self.has_python_requests() and (
                    python_until_us == 0 or monotonic_us() < python_until_us):
                if python_until_us == 0:
                    python_until_us = monotonic_us() + PYTHON_SHARE_US
                self.hand_over()
            else:
                break
        if python_until_us == 0 and self.has_python_requests():
            # The native budget is used up. Python has its own in every turn; otherwise it would
            # starve while clients send without a pause.
            self.hand_over()
        self.admit_waiting()

    cdef void drain_connections(self):
        cdef list to_drain = self.to_drain
        cdef Connection connection
        cdef int done = 0
        self.to_drain = []
        for connection in to_drain:
            if self.check_budget():
                self.to_drain = to_drain[done:] + self.to_drain
                return
            done += 1
            if connection.is_closed:
                continue
            try:
                connection.drain()
                if self.find_quota is not None:
                    meter(connection)
            except Exception:
                self.close_after_error(connection)
        self.check_budget()

    cdef bint has_python_requests(self):
        return self.has_backlog or len(self.python_requests) > 0

    cdef void hand_over(self):
        cdef list requests
        cdef PendingReply pending
        # Requests of connections that have been closed need no answer.
        requests = [pending for pending in self.python_requests if not pending.connection.is_closed]
        self.python_requests = []
        self.has_backlog = False
        try:
            self.has_backlog = bool(self.dispatch(requests))
        except Exception:  # others continue; connections of unanswered requests close
            logger.exception("requests could not be handed over to Python")

    cdef void finish_acks(self):
        # Completes acknowledgements whose log has reached their offset, or has failed.
        cdef AckWaiter* waiter = self.turn.finished
        cdef AckWaiter* next_waiter
        cdef ReplySlot* slot
        cdef Connection connection
        self.turn.finished = self.turn.finished_tail = NULL
        while waiter != NULL:
            next_waiter = waiter.next
            slot = <ReplySlot*>waiter.owner
            if waiter.status != LOG_OK and slot.fail != NULL and slot.connection != NULL:
                slot.fail(slot, waiter.place, waiter.status)
            slot.waiting -= 1
            if slot.waiting == 0:
                if slot.connection == NULL:
                    slot_free(slot)
                else:
                    connection = <Connection>slot.connection
                    connection.slots_waiting -= 1
                    connection.request_drain()
            waiter = next_waiter

    cdef void wake_waits(self):
        # Those whose logs have changed.
        cdef WatchOwner* owner = self.turn.woken
        cdef Wait wait
        while owner != NULL:
            self.turn.forget(owner)
            if owner.is_parked:
                wait = (<Connection>owner.object).wait    # it may end, and only this holds it then
                wait.woken()
            owner = self.turn.woken

    cdef void expire(self):
        # Waits decide what their time means: an answer with what there is, or a keepalive.
        cdef Timer* timer = wheel_due(&self.wheel, self.monotonic_ms)
        cdef Wait wait
        while timer != NULL:
            wait = (<Connection>timer.owner).wait
            wait.due()
            timer = wheel_due(&self.wheel, self.monotonic_ms)

    cdef void shed_replies(self):
        """Close the connections that have left replies unread for longest, until the others fit.

        The last one is not closed: a single reply that exceeds the limit could never be read
        otherwise.
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
            oldest.close("does not read its replies, and others need the memory")

    cdef void arm(self):
        # A timer that fires too early costs one empty turn. So it is only ever set to an earlier
        # time, and the wheel is searched only after it has fired.
        cdef itimerspec at
        cdef int64_t deadline_ms = self.wheel.earliest_ms
        if self.timer_armed_ms >= 0 and deadline_ms >= self.timer_armed_ms:
            return
        if self.timer_armed_ms < 0:
            deadline_ms = wheel_next(&self.wheel)
        self.wheel.earliest_ms = INT64_MAX
        if deadline_ms < 0:
            return
        memset(&at, 0, sizeof(at))
        at.it_value.tv_sec = deadline_ms // 1000
        at.it_value.tv_nsec = (deadline_ms % 1000) * 1000000
        timerfd_settime(self.timer_fd, TFD_TIMER_ABSTIME, &at, NULL)
        self.timer_armed_ms = deadline_ms

    def sweep(self, int64_t idle_ms_max, int64_t stalled_ms_max, int64_t first_ms_max):
        """Close connections that are idle, stall inside a frame, or do not read their replies.

        A connection whose first bytes do not decide its protocol has `first_ms_max` from the first
        byte; one that has sent nothing is idle. The reader of a stream sends no requests, and may
        pause as long as an idle connection.
        """
        cdef Connection connection
        cdef int64_t now_ms = clock_ms(CLOCK_MONOTONIC), silent_ms
        pool_trim(&self.memory.pool)
        for connection in list(self.connections.values()):
            silent_ms = now_ms - connection.active_ms
            if connection.is_outbound:
                continue
            if connection.tls is not None and not connection.tls.is_established:
                if now_ms - connection.tls.started_ms > HANDSHAKE_MS_MAX:
                    connection.tls.fail("no TLS handshake in time")
                    connection.fail_tls()
                continue
            if connection.has_unsent():
                if silent_ms > (idle_ms_max if is_streaming(connection) else stalled_ms_max):
                    connection.close("stalled: it does not read its replies")
            elif (connection.is_busy or connection.slots_head != NULL
                    or connection.input.state == INPUT_WAITING):
                continue
            elif connection.input.data == NULL:
                if silent_ms > idle_ms_max and (
                        connection.protocol is None or connection.protocol.is_closed_idle):
                    connection.close("idle")
            elif silent_ms > stalled_ms_max or input_is_slow(
                    &connection.input, now_ms, stalled_ms_max, FRAME_BYTES_PER_MS_MIN) or (
                    connection.protocol is None
                    and now_ms - connection.input.started_ms > first_ms_max):
                connection.close("stalled inside a frame")

    def close_stalled_frames(self, int64_t awaited_ms_max):
        """Close connections with stalled frames, once others wait too long for their memory.

        A frame has stalled if no byte of it came for `awaited_ms_max`, or fewer than
        CONTENDED_FRAME_BYTES_PER_MS_MIN did. So are mute connections with frames that they have
        sent nevertheless. To be called every second, with `sweep`.
        """
        cdef Connection connection
        self.read_clocks()
        if memory_wait_ms(&self.memory, self.monotonic_ms) > awaited_ms_max:
            for connection in list(self.connections.values()):
                if blocks_others(connection, self.monotonic_ms, awaited_ms_max):
                    connection.close(
                        "above its quota, and others wait for its memory"
                        if isinstance(connection.wait, Mute)
                        else "stalled inside a frame, and others wait for its memory")
        self.admit_waiting()   # connections closed outside of a turn have freed memory, too

    cdef void admit_waiting(self):
        # Connections that wait for memory read again, when some is free or when they are admitted.
        cdef int64_t budget = self.memory.bytes_max - self.memory.bytes
        cdef Connection connection
        cdef InputBuffer* buffer
        while self.memory.waiting > 0:
            buffer = memory_admit_next(&self.memory, &budget)
            if buffer == NULL:
                return
            connection = <Connection>buffer.owner
            connection.restart_frame_timer()
            connection.resume_reading()
            if connection.tls is not None:
                connection.request_drain()      # what is decrypted already is read then

    @property
    def input_bytes(self):
        """Memory of received bytes that are not served yet."""
        return self.memory.bytes

    @property
    def input_bytes_max(self):
        """Above this, a connection with more than a frame's head waits before it reads more."""
        return self.memory.bytes_max

    @input_bytes_max.setter
    def input_bytes_max(self, int64_t size):
        self.memory.bytes_max = size

    @property
    def send_times(self):
        """The histogram of the times in which answers were sent."""
        return histogram_state(&self.sends)

    @property
    def waiting_for_memory(self):
        """How many connections wait for memory before they read more."""
        return self.memory.waiting

    def stop_streams(self):
        """End every stream: the broker is stopping."""
        cdef Connection connection
        cdef Wait wait
        for connection in list(self.connections.values()):
            wait = connection.wait
            if wait is not None:
                wait.stop()

    @property
    def has_pending_replies(self):
        """Whether a request is unanswered or a reply unsent; of waits only brief ones count."""
        cdef Connection connection
        for connection in self.connections.values():
            if connection.is_outbound:
                continue
            if connection.slots_head != NULL or connection.has_unsent() or (
                    connection.wait is not None and connection.wait.is_brief):
                return True
        return False

    def close(self):
        """Close every connection."""
        cdef Connection connection
        for connection in list(self.connections.values()):
            connection.close("the broker is stopping")
