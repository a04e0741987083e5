"""The loop's turn: which connections are ready, and what follows from what they changed.

All sockets stand in one epoll set of ours, and that set's descriptor stands in the event loop: one
callback per turn serves everything that is ready, however many connections that are. A turn is

    read what arrived, serve whole frames
    flush    write what was staged, hand dirty logs to the commit thread
    finish   acknowledgements and fetches that can now be answered
    send     all replies of a connection in one call, then serve what it had to keep
    hand over    what the native paths have left to Python, which begins some of it

It ends by the clock: what has not had its turn by then is the first of the next one. Python comes
last, for a short share: what it has not begun by then waits until the sockets were looked at again.
"""

cimport cython
from libc.errno cimport errno
from libc.stdint cimport INT64_MAX, int64_t, uint32_t, uint64_t
from libc.string cimport memset
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, itimerspec
from posix.unistd cimport close as c_close, read as c_read

from broker._native.kernel.big_endian cimport store_uint16, store_uint64
from broker._native.kernel.clock cimport clock_ms, monotonic_us
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport LOG_FULL, LOG_OK, AckWaiter, LogStatus, Turn, WatchOwner
from broker._native.wire.buffer_pool cimport pool_trim
from broker._native.wire.connection cimport Connection, NativeProtocol, PendingReply, PollerState
from broker._native.wire.detection cimport protocol_named
from broker._native.wire.epoll cimport (
    EPOLL_CLOEXEC,
    EPOLL_CTL_ADD,
    EPOLLIN,
    epoll_create1,
    epoll_ctl,
    epoll_event,
    epoll_wait,
)
from broker._native.wire.fetch cimport FetchSessions
from broker._native.wire.frame_memory cimport (
    HEAD_ONLY,
    KEPT_ADMITTED,
    KEPT_WAITS,
    Kept,
    kept_is_slow,
    memory_awaited_ms,
    memory_next,
)
from broker._native.wire.reply_slot cimport ReplySlot, slot_fail, slot_free
from broker._native.wire.timer_wheel cimport Timer, wheel_due, wheel_init, wheel_next

import logging

from broker.model import limits

logger = logging.getLogger(__name__)

cdef extern from "sys/timerfd.h" nogil:
    int timerfd_create(int clock, int flags)
    int timerfd_settime(int fd, int flags, const itimerspec* value, itimerspec* old)
    int TFD_NONBLOCK, TFD_CLOEXEC, TFD_TIMER_ABSTIME

cdef enum:
    EVENTS_MAX = 256
    ERROR_NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20   # appended, and the disk is full

cdef int POLLS_PER_TURN = limits.POLLS_PER_TURN
cdef int64_t CONTENDED_FRAME_BYTES_PER_MS_MIN = limits.CONTENDED_FRAME_BYTES_PER_MS_MIN
cdef int64_t FRAME_BYTES_PER_MS_MIN = limits.FRAME_BYTES_PER_MS_MIN
cdef int64_t PYTHON_SHARE_US = limits.PYTHON_SHARE_US
cdef int64_t TURN_SHARE_US = limits.TURN_SHARE_US
assert EVENTS_MAX == limits.EVENTS_PER_POLL


cdef bint holds_up(Connection connection, int64_t now_ms, int64_t stalled_ms_max) noexcept:
    # Whether it has memory that others wait for, with a frame that does not get on.
    if connection.kept.state == KEPT_WAITS:
        return False
    if connection.kept.state != KEPT_ADMITTED and (
            connection.kept.counted <= HEAD_ONLY or connection.is_busy or connection.has_waiting):
        return False
    return now_ms - connection.active_ms > stalled_ms_max or kept_is_slow(
        &connection.kept, now_ms, stalled_ms_max, CONTENDED_FRAME_BYTES_PER_MS_MIN)


@cython.final
cdef class Poller(PollerState):
    """The broker's connections and what one turn of the loop does with them."""

    def __cinit__(self, Turn turn, TopicTable topics, FetchSessions fetch_sessions):
        self.turn = turn
        self.topics = topics
        self.fetch_sessions = fetch_sessions
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        self.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self.epoll_fd < 0 or self.timer_fd < 0:
            raise OSError(errno, "epoll or timerfd")
        self.timer_armed_ms = -1
        self.share_us = TURN_SHARE_US
        self.round = 1
        self.steady_base_ms = clock_ms(CLOCK_REALTIME) - clock_ms(CLOCK_MONOTONIC)
        self.tell_time()
        wheel_init(&self.wheel, self.monotonic_ms)
        self.listen_to(self.timer_fd)
        if turn.commit is not None:
            self.listen_to(turn.commit.event_fd)

    def __dealloc__(self):
        if self.epoll_fd > 0:
            c_close(self.epoll_fd)
        if self.timer_fd > 0:
            c_close(self.timer_fd)

    cdef int listen_to(self, int fd) except -1:
        cdef epoll_event event
        event.events = EPOLLIN
        event.data.fd = fd
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0:
            raise OSError(errno, "epoll_ctl")
        return 0

    def serve_with(self, dialects, dispatch, on_close):
        """Serve these dialects (name → NativeProtocol), and call Python for what they leave.

        `dispatch` is called with a list of PendingReply and begins as many of all it has as its
        share of a turn allows; it returns whether some are left, and is called again for those.
        `on_close` is called with a Connection and the reason, for each that ends.
        """
        cdef NativeProtocol dialect
        for name, dialect in dialects.items():
            self.dialects[protocol_named(name)] = dialect
        self.dispatch = dispatch
        self.on_close = on_close

    def add(self, int fd, str peer_host, session, dialect=None):
        """Take over an accepted non-blocking socket (its descriptor is ours from here on).

        Its first bytes decide what it speaks, unless a dialect is named.
        """
        cdef Connection connection = Connection(self, fd, peer_host)
        cdef epoll_event event
        connection.session = session
        if dialect is not None:
            connection.dialect = self.dialects[protocol_named(dialect)]
            connection.dialect.connections += 1
        event.events = connection.interest
        event.data.fd = fd
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0:
            raise OSError(errno, "epoll_ctl")
        self.connections[fd] = connection
        return connection

    def __call__(self):
        """Serve what is ready: the event loop calls this when our epoll set is."""
        cdef int64_t ends_us = monotonic_us() + self.share_us
        cdef int _round
        for _round in range(POLLS_PER_TURN):
            self.share_until(ends_us)
            if self.look() <= 0:
                return
            self.turn.is_running = True
            try:
                self.end_turn()
            finally:
                self.turn.is_running = False   # whatever went wrong, the next turn must come
            if monotonic_us() >= ends_us:
                return

    cdef int look(self) except -1:
        # Serve what the sockets have, natively; how many they were.
        cdef epoll_event events[EVENTS_MAX]
        cdef int count = epoll_wait(self.epoll_fd, events, EVENTS_MAX, 0)
        if count <= 0:
            return 0
        self.tell_time()
        self.turn.is_running = True
        try:
            self.take_events(events, count)
        finally:
            self.turn.is_running = False
        return count

    cdef void take_events(self, epoll_event* events, int count):
        # Connections that do not get their turn are reported again; they come before those that
        # have had one in this round. It ends when nobody is left who has not.
        cdef int i, fd, served_before = 0
        cdef bint is_over = False
        cdef Connection connection
        for i in range(count):
            fd = events[i].data.fd
            if fd == self.timer_fd:
                self.take_timer()
                continue
            if fd == self.turn.commit.event_fd:
                self.turn.take_synced()
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
        # True: others are to have their turn.
        connection.round = self.round
        try:
            connection.on_event(events)
        except Exception:
            self.give_up(connection)
        return self.looks_late()

    cdef void give_up(self, Connection connection):
        # Most likely there was no memory for it; all others go on.
        logger.exception("a connection is closed over an error of the broker's own")
        try:
            connection.close("an error of the broker's own")
        except Exception:
            logger.exception("a connection was not closed")

    cdef void take_timer(self):
        # Read, or it stays readable and the loop never rests again.
        cdef uint64_t times
        c_read(self.timer_fd, &times, sizeof(times))
        self.timer_armed_ms = -1

    def tell_time(self):
        """Read the clocks: a turn is one moment."""
        self.monotonic_ms = clock_ms(CLOCK_MONOTONIC)
        self.turn.now_ms = clock_ms(CLOCK_REALTIME)
        self.turn.steady_ms = self.monotonic_ms + self.steady_base_ms

    def end(self):
        """Flush, finish and send what was changed outside of the connections' own turn.

        The loop calls it once for each time it was asked to: turns of the connections in between
        leave that as it is, or there would be one more of it after each of them. The sockets come
        first: what was asked for may be more of Python's requests.
        """
        self.turn.is_requested = False
        self.share_until(monotonic_us() + self.share_us)
        if self.look() == 0:
            self.tell_time()
        self.turn.is_running = True
        try:
            self.end_turn()
        finally:
            self.turn.is_running = False

    cdef void end_turn(self):
        cdef int rounds = 0
        cdef int64_t slow_until_us = 0
        self.expire()
        # Serving a kept frame or a slow request can make new work; what is left after a few rounds
        # goes to the next turn.
        self.share_until(monotonic_us() + self.share_us)
        while rounds < POLLS_PER_TURN and not self.is_late:
            rounds += 1
            self.turn.flush()
            self.wake_fetches()    # first: who waits for records waits longer than who wrote them
            self.finish_acks()
            if self.touched:
                self.drain_touched()
            elif self.has_slow() and (
                    slow_until_us == 0 or monotonic_us() < slow_until_us):
                if slow_until_us == 0:
                    slow_until_us = monotonic_us() + PYTHON_SHARE_US
                self.hand_over()
            else:
                break
        if slow_until_us == 0 and self.has_slow():
            # The native share is used up. Python has its own in every turn, or it would never get
            # any while clients send without end.
            self.hand_over()
        self.let_on()
        self.turn.is_running = False
        if self.has_slow() or self.touched or self.turn.has_work():
            self.turn.request_end()
        self.arm()

    cdef void drain_touched(self):
        cdef list touched = self.touched
        cdef Connection connection
        cdef int done = 0
        self.touched = []
        for connection in touched:
            if self.looks_late():
                self.touched = touched[done:] + self.touched
                return
            done += 1
            if connection.is_closed:
                continue
            try:
                connection.drain()
            except Exception:
                self.give_up(connection)
        self.looks_late()

    cdef bint has_slow(self):
        return self.has_backlog or len(self.slow) > 0

    cdef void hand_over(self):
        cdef list slow
        cdef PendingReply pending
        # Nobody waits for the answer of one whose connection has closed by now.
        slow = [pending for pending in self.slow if not pending.connection.is_closed]
        self.slow = []
        self.has_backlog = False
        try:
            self.has_backlog = bool(self.dispatch(slow))
        except Exception:  # the turn goes on for everyone else; what was not answered is closed
            logger.exception("requests were not handed over")

    cdef void finish_acks(self):
        # Acknowledgements whose log has got there, or never will.
        cdef AckWaiter* waiter = self.turn.finished
        cdef AckWaiter* next_waiter
        cdef ReplySlot* slot
        cdef Connection connection
        self.turn.finished = self.turn.finished_tail = NULL
        while waiter != NULL:
            next_waiter = waiter.next
            slot = <ReplySlot*>waiter.owner
            if waiter.status != LOG_OK:
                self.fail(slot, waiter.place, waiter.status)
            slot.waiting -= 1
            if slot.waiting == 0:
                if slot.connection == NULL:
                    slot_free(slot)
                else:
                    connection = <Connection>slot.connection
                    connection.slots_waiting -= 1
                    connection.touch()
            waiter = next_waiter

    cdef void fail(self, ReplySlot* slot, uint32_t place, LogStatus status) noexcept:
        # What a reply said before its wait failed is not true. Kafka's has a place for each error,
        # the others have another answer, which is given once.
        if slot.is_failed or slot.connection == NULL:
            return
        if slot.failed_size > 0:
            slot.is_failed = True
            slot_fail(slot)
            return
        store_uint16(slot.data + place, ERROR_NOT_ENOUGH_REPLICAS_AFTER_APPEND
                     if status == LOG_FULL else slot.storage_error)
        store_uint64(slot.data + place + 2, -1)     # no base offset
        if slot.has_log_start:
            store_uint64(slot.data + place + 18, -1)

    cdef void wake_fetches(self):
        # Parked fetches and flows whose logs have changed.
        cdef WatchOwner* owner = self.turn.woken
        while owner != NULL:
            self.turn.forget(owner)
            if owner.is_parked:
                (<Connection>owner.object).woken()
            owner = self.turn.woken

    cdef void expire(self):
        # Parked fetches that have waited long enough get what there is; flows have their own ends.
        cdef Timer* timer = wheel_due(&self.wheel, self.monotonic_ms)
        while timer != NULL:
            (<Connection>timer.owner).due()
            timer = wheel_due(&self.wheel, self.monotonic_ms)

    cdef void arm(self):
        # A timer that is set for earlier than needed costs one empty turn, so it is only moved up,
        # and the wheel is searched only when it has gone off.
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
        """Close connections that say nothing, stall inside a frame, or take none of their replies.

        A connection whose first bytes do not tell its protocol has `first_ms_max` from the first
        byte; one that has sent nothing at all is idle. Who reads a flow asks for nothing, and may
        pause as long as an idle one.
        """
        cdef Connection connection
        cdef int64_t now_ms = clock_ms(CLOCK_MONOTONIC), silent_ms
        pool_trim(&self.memory.pool)
        for connection in list(self.connections.values()):
            silent_ms = now_ms - connection.active_ms
            if connection.output.head != NULL:
                if silent_ms > (stalled_ms_max if connection.flow is None else idle_ms_max):
                    connection.close("stalled: it takes none of its replies")
            elif (connection.is_busy or connection.slots_head != NULL
                    or connection.kept.state == KEPT_WAITS):
                continue
            elif connection.kept.data == NULL:
                if silent_ms > idle_ms_max and (
                        connection.dialect is None or connection.dialect.is_closed_idle):
                    connection.close("idle")
            elif silent_ms > stalled_ms_max or kept_is_slow(
                    &connection.kept, now_ms, stalled_ms_max, FRAME_BYTES_PER_MS_MIN) or (
                    connection.dialect is None
                    and now_ms - connection.kept.started_ms > first_ms_max):
                connection.close("stalled inside a frame")

    def make_room(self, int64_t awaited_ms_max):
        """Close frames that do not get on, once others have waited so long for their memory.

        Such a frame got no byte for as long, or fewer than CONTENDED_FRAME_BYTES_PER_MS_MIN. To be
        called every second, with `sweep`.
        """
        cdef Connection connection
        self.tell_time()
        if memory_awaited_ms(&self.memory, self.monotonic_ms) > awaited_ms_max:
            for connection in list(self.connections.values()):
                if holds_up(connection, self.monotonic_ms, awaited_ms_max):
                    connection.close("stalled inside a frame, and others wait for its memory")
        self.let_on()   # what ended outside of a turn has left room, too

    cdef void let_on(self):
        # Who waits for memory reads on, when there is some again or its turn has come.
        cdef int64_t room = self.memory.bytes_max - self.memory.bytes
        cdef Connection connection
        cdef Kept* kept
        while self.memory.waiting > 0:
            kept = memory_next(&self.memory, &room)
            if kept == NULL:
                return
            connection = <Connection>kept.owner
            connection.begin_anew()
            connection.listen()

    @property
    def kept_bytes(self):
        """What the bytes take that have come in and are not served yet."""
        return self.memory.bytes

    @property
    def kept_bytes_max(self):
        """Above which a connection with more than the head of a frame waits, before it reads on."""
        return self.memory.bytes_max

    @kept_bytes_max.setter
    def kept_bytes_max(self, int64_t size):
        self.memory.bytes_max = size

    @property
    def waiting_for_memory(self):
        """Connections that do."""
        return self.memory.waiting

    def stop_flows(self):
        """Have every flow of frames end by itself: the broker stops."""
        cdef Connection connection
        for connection in list(self.connections.values()):
            if connection.flow is not None:
                connection.flow.must_stop()

    @property
    def owes_replies(self):
        """Whether a request is still to be answered or a reply to be sent; parked fetches aside."""
        cdef Connection connection
        for connection in self.connections.values():
            if connection.slots_head != NULL or connection.output.head != NULL:
                return True
        return False

    def close(self):
        """Close every connection and the poller's own descriptors."""
        cdef Connection connection
        for connection in list(self.connections.values()):
            connection.close("the broker stops")
