"""Connections and the loop's turn: bytes in, frames, replies in order, bytes out.

All sockets stand in one epoll set of ours, and that set's descriptor stands in the event loop: one
callback per turn serves everything that is ready, however many connections that are. A turn is

    read what arrived, serve whole frames
    flush    write what was staged, hand dirty logs to the commit thread
    finish   acknowledgements and fetches that can now be answered
    send     all replies of a connection in one call

Requests of a connection start in order and are answered in order. A request that is not answered at
once (a long poll, or one that Python still works on) holds back the later ones of its connection,
as Apache Kafka does; produce requests that wait for their sync do not, they are bounded by bytes.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset
from libc.time cimport time_t

from broker._native.kernel.big_endian cimport store_uint16, store_uint32, store_uint64
from broker._native.kernel.cursor cimport Cursor, load_int32
from broker._native.log.partition_log cimport (
    LOG_OK,
    AckWaiter,
    Turn,
    WatchOwner,
)
from broker._native.log.topic_table cimport TopicTable
from broker._native.wire.buffer_pool cimport pool_give, pool_take, pool_trim
from broker._native.wire.envelope cimport (
    API_KEYS,
    ENVELOPE_OK,
    FRAME_HEAD_SIZE,
    PROTOCOL_KAFKA,
    PROTOCOL_UNDECIDED,
    REQUEST_HEAD_MIN,
    RequestHead,
    envelope_read,
    protocol_of,
)
from broker._native.wire.fetch cimport (
    FETCH_NOT_SERVED,
    FETCH_READY,
    FetchSession,
    FetchSessions,
    FetchStatus,
)
from broker._native.wire.output_queue cimport (
    SEND_DONE,
    SEND_FAILED,
    SendStatus,
    queue_commit,
    queue_free,
    queue_reserve,
    queue_send,
)
from broker._native.wire.produce cimport (
    NOT_SERVED,
    SERVED,
    SERVED_CLOSE,
    ServeStatus,
    produce_serve,
)
from broker._native.wire.reply_slot cimport ReplySlot, slot_free, slot_new
from broker._native.wire.timer_wheel cimport (
    Timer,
    wheel_clear,
    wheel_due,
    wheel_init,
    wheel_next,
    wheel_set,
)

import logging

logger = logging.getLogger(__name__)

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int socket, void* into, size_t size, int flags)
    int MSG_DONTWAIT

cdef extern from "sys/epoll.h" nogil:
    ctypedef union epoll_data_t:
        int fd
    struct epoll_event:
        uint32_t events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_ctl(int epoll_fd, int op, int fd, epoll_event* event)
    int epoll_wait(int epoll_fd, epoll_event* events, int count, int timeout_ms)
    int EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL, EPOLL_CLOEXEC
    enum: EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLERR, EPOLLHUP

cdef extern from "time.h" nogil:
    struct timespec:
        time_t tv_sec
        long tv_nsec
    struct itimerspec:
        timespec it_interval
        timespec it_value
    int CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_REALTIME_COARSE
    int clock_gettime(int clock, timespec* into)

cdef extern from "sys/timerfd.h" nogil:
    int timerfd_create(int clock, int flags)
    int timerfd_settime(int fd, int flags, const itimerspec* value, itimerspec* old)
    int TFD_NONBLOCK, TFD_CLOEXEC, TFD_TIMER_ABSTIME

cdef extern from "unistd.h" nogil:
    ssize_t c_read "read"(int fd, void* into, size_t size)
    int c_close "close"(int fd)

cdef enum:
    KEY_PRODUCE = 0
    KEY_FETCH = 1
    EVENTS_MAX = 256                # taken from epoll at once
    ROUNDS_MAX = 8                  # polls of our set before the event loop gets its turn
    RECEIVE_SIZE = 256 << 10        # read at once from one connection: also its limit per turn
    OWN_BUFFER_MIN = 32 << 10       # a longer incomplete frame gets a buffer of its own
    HEAD_ONLY = 4 << 10             # read of a frame that is expected to get one
    FRAME_RATE_MIN = 1              # bytes per ms that an incomplete frame must come in with
    ACKS_BYTES_MAX = 1 << 20        # replies that wait for a sync, per connection
    OUTPUT_BYTES_MAX = 64 << 20     # unsent replies above which no further request is served
    SEND_BYTES_PER_TURN = 2 << 20


cdef int64_t clock_ms(int clock) noexcept:
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


@cython.final
cdef class PendingReply:
    """One request that Python answers; its place among its connection's replies is kept."""

    def __repr__(self):
        return f"<PendingReply api {self.api_key} v{self.api_version} #{self.correlation_id}>"

    @property
    def session(self):
        """What the protocol keeps for the connection."""
        return self.connection.session

    def send(self, body):
        """Answer with a response body (bytes), or with None: this request gets no response."""
        cdef uint32_t head = 9 if self.is_flexible else 8
        cdef uint32_t size
        cdef bytes content
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
            store_uint32(self.slot.data, head + size - 4)
            store_uint32(self.slot.data + 4, self.correlation_id)
            self.slot.data[8] = 0   # tags of the response header, when it has them
            memcpy(self.slot.data + head, <const char*>content, size)
            self.slot.size = head + size
        self.finish()

    def close(self):
        """Close the connection instead of answering, once what came before has been sent."""
        if self.slot == NULL:
            raise RuntimeError(f"{self!r} is answered already")
        self.slot.is_closing = True
        self.finish()

    cdef void finish(self) except *:
        cdef ReplySlot* slot = self.slot
        self.slot = NULL
        slot.waiting -= 1
        if slot.connection == NULL:
            slot_free(slot)     # the connection has gone meanwhile
            return
        self.connection.slots_bytes += slot.size
        self.connection.is_busy = False
        self.connection.touch()
        self.poller.turn.request_end()

    def __dealloc__(self):
        # Dropped without an answer: the handler failed. The connection cannot go on in order.
        cdef Connection connection
        if self.slot == NULL:
            return
        if self.slot.connection == NULL:
            slot_free(self.slot)
            return
        connection = <Connection>self.slot.connection
        self.slot.is_closing = True
        self.slot.waiting = 0
        connection.touch()
        connection.poller.turn.request_end()


@cython.final
cdef class Connection:
    """One socket: what is read of a frame, what is owed in replies, what is left to send."""

    def __cinit__(self, Poller poller, int fd, str peer_host):
        self.poller = poller
        self.fd = fd
        self.peer_host = peer_host
        self.protocol = PROTOCOL_UNDECIDED
        self.interest = EPOLLIN | EPOLLRDHUP
        self.timer.owner = <void*>self
        self.active_ms = clock_ms(CLOCK_MONOTONIC)

    def __dealloc__(self):
        # Closed long ago, unless the poller itself was dropped.
        self.drop_replies()
        free(self.partial)

    def __repr__(self):
        return f"<Connection {self.fd} from {self.peer_host}>"

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
            self.close("closed by the peer")
        elif events & EPOLLIN:
            if self.is_busy or self.is_full():
                # Not now: what arrives waits in the kernel, and only a hang-up wakes us.
                self.watch(self.interest & ~<uint32_t>EPOLLIN)
            else:
                self.read()

    cdef bint is_full(self) noexcept:
        return self.slots_bytes > ACKS_BYTES_MAX or self.output.bytes > OUTPUT_BYTES_MAX or (
            self.is_closing)

    cdef void read(self):
        """Receive what is there, up to a turn's share, and serve the whole frames in it."""
        while self.receive() and not self.is_closed:
            pass

    cdef bint receive(self):
        # One recv. True when it brought only the head of a long frame, whose rest is likely there.
        cdef uint8_t* into = self.poller.receive
        cdef size_t have = self.partial_size, room = RECEIVE_SIZE
        cdef bint is_own = self.partial_target > 0
        cdef ssize_t count
        cdef Py_ssize_t used
        if is_own:
            into = self.partial
            room = self.partial_target
        elif have > 0:
            memcpy(into, self.partial, have)
        elif self.expects_long:
            # The frame before was long: read the head of this one, then the rest where it stays.
            room = HEAD_ONLY
        count = recv(self.fd, into + have, room - have, MSG_DONTWAIT)
        if count < 0:
            if errno != EAGAIN and errno != EINTR:
                self.close("reset by the peer")
            return False
        if count == 0:
            self.close("closed by the peer")
            return False
        self.active_ms = self.poller.monotonic_ms
        have += <size_t>count
        if is_own and have < self.partial_target:
            self.partial_size = have
            return False
        used = self.take_frames(into, have)
        if used < 0 or self.is_closed:
            return False
        if is_own:
            # Held exactly one frame. Served, or (when busy) kept whole for later.
            if used > 0:
                self.drop_partial()
        elif <size_t>used < have:
            self.keep(into + used, have - <size_t>used, used == 0)
        else:
            self.drop_partial()
            self.expects_long = False
        return room == HEAD_ONLY and not self.is_busy and not self.is_full()

    cdef bint is_dripping(self, int64_t now_ms, int64_t stalled_ms_max) noexcept:
        """Whether a frame has been under way for long and comes in too slowly to wait for."""
        cdef int64_t under_way_ms = now_ms - self.frame_started_ms
        return under_way_ms > stalled_ms_max and (
            <int64_t>self.partial_size < under_way_ms * FRAME_RATE_MIN)

    cdef void drop_partial(self) noexcept:
        pool_give(&self.poller.pool, self.partial, self.partial_capacity)
        self.partial = NULL
        self.partial_size = self.partial_capacity = self.partial_target = 0
        self.frame_started_ms = 0

    cdef void keep(self, const uint8_t* data, size_t size, bint is_same_frame) except *:
        # Keep bytes that are not served yet: the start of a frame, or frames that must wait.
        cdef size_t target = 0, capacity = 0
        cdef int64_t started_ms = self.frame_started_ms if is_same_frame else 0
        cdef int32_t length
        cdef uint8_t* kept
        if size >= FRAME_HEAD_SIZE:
            length = load_int32(data)
            if (OWN_BUFFER_MIN < length <= self.poller.frame_bytes_max
                    and length + FRAME_HEAD_SIZE > <int64_t>size):
                target = <size_t>length + FRAME_HEAD_SIZE
        kept = pool_take(&self.poller.pool, target if target > 0 else size, &capacity)
        if kept == NULL:
            self.close("no memory for its frame")
            return
        memcpy(kept, data, size)
        self.drop_partial()
        self.partial = kept
        self.partial_size = size
        self.partial_capacity = capacity
        self.partial_target = target
        self.expects_long = target > RECEIVE_SIZE // 2
        self.frame_started_ms = started_ms if started_ms > 0 else self.poller.monotonic_ms

    cdef Py_ssize_t take_frames(self, uint8_t* data, size_t size):
        """Serve whole frames until one must wait; the bytes used, or -1 when it closed."""
        cdef size_t used = 0
        cdef int32_t length
        cdef Cursor frame
        cdef RequestHead head
        if self.protocol == PROTOCOL_UNDECIDED:
            self.protocol = protocol_of(data, size, &self.poller.apis)
            if self.protocol == PROTOCOL_UNDECIDED:
                return 0
            if self.protocol != PROTOCOL_KAFKA:
                self.poller.closed_undecided += 1
                self.close("speaks no protocol that is served here")
                return -1
        while size - used >= FRAME_HEAD_SIZE and not self.is_busy and not self.is_full():
            length = load_int32(data + used)
            if length < REQUEST_HEAD_MIN or length > self.poller.frame_bytes_max:
                self.close(f"frame of {length} bytes, allowed are {REQUEST_HEAD_MIN} to "
                           f"{self.poller.frame_bytes_max}")
                return -1
            if size - used - FRAME_HEAD_SIZE < <size_t>length:
                break
            frame.next = data + used + FRAME_HEAD_SIZE
            frame.left = <size_t>length
            if envelope_read(frame, &self.poller.apis, &head) != ENVELOPE_OK:
                self.close("request with a key, version or header that is not served")
                return -1
            self.poller.requests += 1
            if not self.serve(&head):
                return -1
            used += FRAME_HEAD_SIZE + <size_t>length
        return <Py_ssize_t>used

    cdef bint serve(self, RequestHead* head):
        """Start one request; False when the connection was closed over it."""
        cdef ServeStatus status = NOT_SERVED
        cdef ReplySlot* slot = NULL
        if head.api_key == KEY_PRODUCE:
            status = produce_serve(self.poller.topics, self.poller.turn, head, &slot)
        elif head.api_key == KEY_FETCH:
            self.serve_fetch(head)
            return not self.is_closed
        if status == NOT_SERVED:
            self.serve_slowly(head)
        elif status == SERVED:
            self.enqueue(slot)
        elif status == SERVED_CLOSE:
            self.close("acks=0 produce that failed")
            return False
        return True

    cdef void enqueue(self, ReplySlot* slot):
        slot.connection = <void*>self
        self.slots_bytes += slot.size
        if self.slots_tail == NULL:
            self.slots_head = slot
        else:
            self.slots_tail.next = slot
        self.slots_tail = slot
        if slot.waiting == 0:
            self.touch()

    cdef void serve_fetch(self, RequestHead* head):
        cdef FetchStatus status = FETCH_NOT_SERVED
        cdef FetchSession session
        if self.slots_head == NULL:
            session = self.poller.fetch_sessions.begin(
                self.poller.topics, self.poller.turn, head, &status)
        if status == FETCH_NOT_SERVED:
            self.serve_slowly(head)
            return
        self.parked = session
        if status == FETCH_READY:
            self.answer_fetch()
            return
        self.is_busy = True
        session.owner.object = <void*>self
        session.park()
        wheel_set(&self.poller.wheel, &self.timer, self.poller.monotonic_ms + session.wait_ms)

    cdef void answer_fetch(self):
        cdef FetchSession session = self.parked
        wheel_clear(&self.poller.wheel, &self.timer)
        session.unpark()
        self.parked = None
        self.is_busy = False
        session.reply(&self.output)
        self.touch()

    cdef void serve_slowly(self, RequestHead* head):
        # Hand the request to Python, with a place for its reply.
        cdef PendingReply pending = PendingReply.__new__(PendingReply)
        cdef ReplySlot* slot = slot_new(0, 0)
        if slot == NULL:
            self.close("no memory for its reply")
            return
        slot.waiting = 1
        pending.slot = slot
        pending.poller = self.poller
        pending.connection = self
        pending.is_flexible = head.is_flexible and head.api_key != 18   # ApiVersions: never
        pending.api_key = head.api_key
        pending.api_version = head.api_version
        pending.correlation_id = head.correlation_id
        if head.client_id != NULL:
            pending.client_id = PyBytes_FromStringAndSize(
                <const char*>head.client_id, head.client_id_size).decode("utf-8", "replace")
        pending.body = PyBytes_FromStringAndSize(<const char*>head.body.next, head.body.left)
        self.is_busy = True
        self.enqueue(slot)
        self.poller.slow.append(pending)

    cdef void resume(self):
        # Serve what was kept while a request held it back, then listen again.
        cdef Py_ssize_t used
        cdef uint8_t* data = self.partial
        cdef size_t size = self.partial_size
        if self.is_closed or self.is_busy or self.is_full():
            return
        if data != NULL and size >= FRAME_HEAD_SIZE:
            used = self.take_frames(data, size)
            if used < 0 or self.is_closed:
                return
            if <size_t>used == size:
                self.drop_partial()
            elif used > 0:
                self.keep(data + used, size - <size_t>used, False)
        if not self.is_busy and not self.is_full():
            self.watch(self.interest | EPOLLIN)

    # ---- out ----------------------------------------------------------------------------------

    cdef void touch(self):
        if not self.is_touched and not self.is_closed:
            self.is_touched = True
            self.poller.touched.append(self)

    cdef void drain(self):
        """Move the replies that are complete, in order, to the output; send; go on reading."""
        cdef ReplySlot* slot
        cdef uint8_t* into
        self.is_touched = False
        while self.slots_head != NULL and self.slots_head.waiting == 0 and not self.is_closing:
            slot = self.slots_head
            if slot.is_closing:
                self.is_closing = True
                break
            into = queue_reserve(&self.output, slot.size)
            if into == NULL:
                self.close("no memory for its replies")
                return
            memcpy(into, slot.data, slot.size)
            queue_commit(&self.output, slot.size)
            self.slots_head = slot.next
            if self.slots_head == NULL:
                self.slots_tail = NULL
            self.slots_bytes -= slot.size
            slot_free(slot)
        self.send()
        if not self.is_closed:
            self.resume()

    cdef void send(self):
        cdef SendStatus status
        if self.output.head != NULL:
            status = queue_send(&self.output, self.fd, SEND_BYTES_PER_TURN)
            if status == SEND_FAILED:
                self.close("reset by the peer")
                return
            self.active_ms = self.poller.monotonic_ms
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
        epoll_ctl(self.poller.epoll_fd, EPOLL_CTL_MOD, self.fd, &event)

    cdef void close(self, str reason):
        """Close the socket and let go of everything owed on it."""
        if self.is_closed:
            return
        self.is_closed = True
        self.poller.connections.pop(self.fd, None)
        c_close(self.fd)
        wheel_clear(&self.poller.wheel, &self.timer)
        if self.parked is not None:
            self.parked.unpark()
            self.parked = None
        self.drop_replies()
        self.drop_partial()
        if self.poller.on_close is not None:
            self.poller.on_close(self, reason)

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


@cython.final
cdef class Poller:
    """The broker's connections and what one turn of the loop does with them."""

    def __cinit__(self, Turn turn, TopicTable topics, FetchSessions fetch_sessions, *,
                  int32_t frame_bytes_max=16 << 20):
        cdef int i
        self.turn = turn
        self.topics = topics
        self.fetch_sessions = fetch_sessions
        self.frame_bytes_max = frame_bytes_max
        self.connections = {}
        self.touched = []
        self.slow = []
        self.receive = <uint8_t*>malloc(RECEIVE_SIZE)
        if self.receive == NULL:
            raise MemoryError
        for i in range(API_KEYS):
            self.apis.version_min[i] = -1
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
        free(self.receive)
        pool_trim(&self.pool)
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
        for _round in range(ROUNDS_MAX):
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
        while rounds < ROUNDS_MAX:
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
