"""The loop's turn: which connections are ready, and what follows from what they changed.

All sockets stand in one epoll set of ours, and that set's descriptor stands in the event loop: one
callback per turn serves everything that is ready, however many connections that are. A turn is

    read what arrived, serve whole frames
    flush    write what was staged, hand dirty logs to the commit thread
    finish   acknowledgements and fetches that can now be answered
    send     all replies of a connection in one call
"""

cimport cython
from libc.errno cimport errno
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t
from libc.string cimport memset
from posix.time cimport CLOCK_MONOTONIC, CLOCK_REALTIME, itimerspec
from posix.unistd cimport close as c_close, read as c_read

from broker._native.kernel.big_endian cimport store_uint16, store_uint64
from broker._native.kernel.clock cimport clock_ms
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport LOG_OK, AckWaiter, Turn, WatchOwner
from broker._native.wire.buffer_pool cimport pool_trim
from broker._native.wire.connection cimport Connection, Shared
from broker._native.wire.envelope cimport API_KEYS, PROTOCOL_UNDECIDED
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
from broker._native.wire.reply_slot cimport ReplySlot, slot_free
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

cdef int POLLS_PER_TURN = limits.POLLS_PER_TURN
assert EVENTS_MAX == limits.EVENTS_PER_POLL


@cython.final
cdef class Poller(Shared):
    """The broker's connections and what one turn of the loop does with them."""

    def __cinit__(self, Turn turn, TopicTable topics, FetchSessions fetch_sessions, *,
                  int32_t frame_bytes_max=limits.FRAME_BYTES_MAX):
        self.turn = turn
        self.topics = topics
        self.fetch_sessions = fetch_sessions
        self.frame_bytes_max = frame_bytes_max
        self.epoll_fd = epoll_create1(EPOLL_CLOEXEC)
        self.timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC)
        if self.epoll_fd < 0 or self.timer_fd < 0:
            raise OSError(errno, "epoll or timerfd")
        self.timer_armed_ms = -1
        self.monotonic_ms = clock_ms(CLOCK_MONOTONIC)
        self.turn.now_ms = clock_ms(CLOCK_REALTIME)
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

    def serve_with(self, apis, dispatch, on_close):
        """Serve these (api key, min, max, first flexible version) and call Python for the rest.

        `dispatch` is called once a turn with a list of PendingReply; `on_close` with a Connection
        and the reason, for each that ends.
        """
        for key, version_min, version_max, flexible_from in apis:
            if not 0 <= key < API_KEYS:
                raise ValueError(f"api key {key}, expected 0 to {API_KEYS - 1}")
            self.apis.version_min[key] = version_min
            self.apis.version_max[key] = version_max
            self.apis.flexible_from[key] = flexible_from
        self.dispatch = dispatch
        self.on_close = on_close

    def add(self, int fd, str peer_host, session):
        """Take over an accepted non-blocking socket (its descriptor is ours from here on)."""
        cdef Connection connection = Connection(self, fd, peer_host)
        cdef epoll_event event
        connection.session = session
        event.events = connection.interest
        event.data.fd = fd
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0:
            raise OSError(errno, "epoll_ctl")
        self.connections[fd] = connection
        return connection

    def __call__(self):
        """Serve what is ready: the event loop calls this when our epoll set is."""
        cdef epoll_event events[EVENTS_MAX]
        cdef Connection connection
        cdef int count, i, _round
        for _round in range(POLLS_PER_TURN):
            count = epoll_wait(self.epoll_fd, events, EVENTS_MAX, 0)
            if count <= 0:
                return
            self.tell_time()
            self.turn.is_running = True
            try:
                for i in range(count):
                    if events[i].data.fd == self.timer_fd:
                        self.take_timer()
                    elif events[i].data.fd == self.turn.commit.event_fd:
                        self.turn.take_synced()
                    else:
                        connection = <Connection>self.connections.get(events[i].data.fd)
                        if connection is not None:
                            connection.on_event(events[i].events)
                self.end_turn()
            finally:
                self.turn.is_running = False   # whatever went wrong, the next turn must come

    cdef void take_timer(self):
        # Read, or it stays readable and the loop never rests again.
        cdef uint64_t times
        c_read(self.timer_fd, &times, sizeof(times))
        self.timer_armed_ms = -1

    def tell_time(self):
        """Read the clocks: a turn is one moment."""
        self.monotonic_ms = clock_ms(CLOCK_MONOTONIC)
        self.turn.now_ms = clock_ms(CLOCK_REALTIME)

    def end(self):
        """Flush, finish and send what was changed outside of the connections' own turn."""
        self.tell_time()
        self.turn.is_running = True
        try:
            self.end_turn()
        finally:
            self.turn.is_running = False

    cdef void end_turn(self):
        cdef list touched
        cdef Connection connection
        cdef int rounds = 0
        self.expire()
        # Serving a kept frame or a slow request can make new work; what is left after a few rounds
        # goes to the next turn.
        while rounds < POLLS_PER_TURN:
            rounds += 1
            if self.slow:
                self.hand_over()
            self.turn.flush()
            self.wake_fetches()    # first: who waits for records waits longer than who wrote them
            self.finish_acks()
            if not self.touched:
                break
            touched = self.touched
            self.touched = []
            for connection in touched:
                if not connection.is_closed:
                    connection.drain()
        self.turn.is_running = False
        if self.slow or self.touched or self.turn.has_work():
            self.turn.request_end()
        self.arm()

    cdef void hand_over(self):
        cdef list slow = self.slow
        self.slow = []
        try:
            self.dispatch(slow)
        except Exception:  # the turn goes on for everyone else; what was not answered is closed
            logger.exception("requests were not handed over")

    cdef void finish_acks(self):
        # Acknowledgements whose log has got there, or never will.
        cdef AckWaiter* waiter = self.turn.finished
        cdef AckWaiter* next_waiter
        cdef ReplySlot* slot
        self.turn.finished = self.turn.finished_tail = NULL
        while waiter != NULL:
            next_waiter = waiter.next
            slot = <ReplySlot*>waiter.owner
            if waiter.status != LOG_OK:
                store_uint16(slot.data + waiter.place, 56)         # KAFKA_STORAGE_ERROR
                store_uint64(slot.data + waiter.place + 2, -1)     # no base offset
                if slot.has_log_start:
                    store_uint64(slot.data + waiter.place + 18, -1)
            slot.waiting -= 1
            if slot.waiting == 0:
                if slot.connection == NULL:
                    slot_free(slot)
                else:
                    (<Connection>slot.connection).touch()
            waiter = next_waiter

    cdef void wake_fetches(self):
        # Parked fetches whose logs have changed.
        cdef WatchOwner* owner = self.turn.woken
        cdef Connection connection
        while owner != NULL:
            self.turn.forget(owner)
            if owner.is_parked:
                connection = <Connection>owner.object
                if connection.parked.has_enough():
                    connection.answer_fetch()
            owner = self.turn.woken

    cdef void expire(self):
        # Parked fetches that have waited long enough get what there is.
        cdef Timer* timer = wheel_due(&self.wheel, self.monotonic_ms)
        while timer != NULL:
            (<Connection>timer.owner).answer_fetch()
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
        byte; one that has sent nothing at all is idle.
        """
        cdef Connection connection
        cdef int64_t now_ms = clock_ms(CLOCK_MONOTONIC), silent_ms
        pool_trim(&self.pool)
        for connection in list(self.connections.values()):
            silent_ms = now_ms - connection.active_ms
            if connection.output.head != NULL:
                if silent_ms > stalled_ms_max:
                    connection.close("stalled: it takes none of its replies")
            elif connection.is_busy or connection.slots_head != NULL:
                continue
            elif connection.partial == NULL:
                if silent_ms > idle_ms_max:
                    connection.close("idle")
            elif silent_ms > stalled_ms_max or connection.is_dripping(now_ms, stalled_ms_max) or (
                    connection.protocol == PROTOCOL_UNDECIDED
                    and now_ms - connection.frame_started_ms > first_ms_max):
                connection.close("stalled inside a frame")

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
