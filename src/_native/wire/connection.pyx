"""A connection: bytes in, frames, requests served, replies in order, bytes out.

Requests of a connection start in order and are answered in order. A request that is not answered at
once (a long poll, or one that Python still works on) holds back the later ones of its connection,
as Apache Kafka does; produce requests that wait for their sync do not, they are bounded by bytes.

    recv -> receive: a buffer for all; the start of a frame is kept -> take_frames -> serve
                                                                                       |
    send <- OutputQueue <- drain: complete replies, in order <- ReplySlot, one a request

What is ready when is the poller's business (wire/poller); a connection that has something to send
puts itself on its list of the touched.
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from posix.time cimport CLOCK_MONOTONIC
from posix.unistd cimport close as c_close

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.kernel.clock cimport clock_ms
from broker._native.kernel.cursor cimport Cursor, load_int32
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
from broker._native.wire.fetch cimport FETCH_NOT_SERVED, FETCH_READY, FetchSession, FetchStatus
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
from broker._native.wire.timer_wheel cimport wheel_clear, wheel_set

from broker.model import limits

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int socket, void* into, size_t size, int flags)
    int MSG_DONTWAIT

cdef enum:
    KEY_PRODUCE = 0
    KEY_FETCH = 1
    OWN_BUFFER_MIN = 32 << 10       # a longer incomplete frame gets a buffer of its own
    HEAD_ONLY = 4 << 10             # read of a frame that is expected to get one

cdef size_t RECEIVE_BYTES_PER_TURN = limits.RECEIVE_BYTES_PER_TURN
cdef int64_t SEND_BYTES_PER_TURN = limits.SEND_BYTES_PER_TURN
cdef int64_t FRAME_BYTES_PER_MS_MIN = limits.FRAME_BYTES_PER_MS_MIN
cdef int64_t WAITING_REPLY_BYTES_PER_CONNECTION = limits.WAITING_REPLY_BYTES_PER_CONNECTION
cdef int64_t REPLY_QUEUE_BYTES_PER_CONNECTION = limits.REPLY_QUEUE_BYTES_PER_CONNECTION


cdef class Shared:
    """What all connections have in common; the poller is one."""

    def __cinit__(self):
        cdef int i
        self.connections = {}
        self.touched = []
        self.slow = []
        self.receive = <uint8_t*>malloc(RECEIVE_BYTES_PER_TURN)
        if self.receive == NULL:
            raise MemoryError
        for i in range(API_KEYS):
            self.apis.version_min[i] = -1

    def __dealloc__(self):
        free(self.receive)
        pool_trim(&self.pool)


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
        self.connection.shared.turn.request_end()

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
        connection.shared.turn.request_end()


@cython.final
cdef class Connection:
    """One socket: what is read of a frame, what is owed in replies, what is left to send."""

    def __cinit__(self, Shared shared, int fd, str peer_host):
        self.shared = shared
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
        return self.is_closing or self.slots_bytes > WAITING_REPLY_BYTES_PER_CONNECTION or (
            self.output.bytes > REPLY_QUEUE_BYTES_PER_CONNECTION)

    cdef void read(self):
        """Receive what is there, up to a turn's share, and serve the whole frames in it."""
        while self.receive() and not self.is_closed:
            pass

    cdef bint receive(self):
        # One recv. True when it brought only the head of a long frame, whose rest is likely there.
        cdef uint8_t* into = self.shared.receive
        cdef size_t have = self.partial_size, room = RECEIVE_BYTES_PER_TURN
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
        self.active_ms = self.shared.monotonic_ms
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
            <int64_t>self.partial_size < under_way_ms * FRAME_BYTES_PER_MS_MIN)

    cdef void drop_partial(self) noexcept:
        pool_give(&self.shared.pool, self.partial, self.partial_capacity)
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
            if (OWN_BUFFER_MIN < length <= self.shared.frame_bytes_max
                    and length + FRAME_HEAD_SIZE > <int64_t>size):
                target = <size_t>length + FRAME_HEAD_SIZE
        kept = pool_take(&self.shared.pool, target if target > 0 else size, &capacity)
        if kept == NULL:
            self.close("no memory for its frame")
            return
        memcpy(kept, data, size)
        self.drop_partial()
        self.partial = kept
        self.partial_size = size
        self.partial_capacity = capacity
        self.partial_target = target
        self.expects_long = target > RECEIVE_BYTES_PER_TURN // 2
        self.frame_started_ms = started_ms if started_ms > 0 else self.shared.monotonic_ms

    cdef Py_ssize_t take_frames(self, uint8_t* data, size_t size):
        """Serve whole frames until one must wait; the bytes used, or -1 when it closed."""
        cdef size_t used = 0
        cdef int32_t length
        cdef Cursor frame
        cdef RequestHead head
        if self.protocol == PROTOCOL_UNDECIDED:
            self.protocol = protocol_of(data, size, &self.shared.apis)
            if self.protocol == PROTOCOL_UNDECIDED:
                return 0
            if self.protocol != PROTOCOL_KAFKA:
                self.shared.closed_undecided += 1
                self.close("speaks no protocol that is served here")
                return -1
        while size - used >= FRAME_HEAD_SIZE and not self.is_busy and not self.is_full():
            length = load_int32(data + used)
            if length < REQUEST_HEAD_MIN or length > self.shared.frame_bytes_max:
                self.close(f"frame of {length} bytes, allowed are {REQUEST_HEAD_MIN} to "
                           f"{self.shared.frame_bytes_max}")
                return -1
            if size - used - FRAME_HEAD_SIZE < <size_t>length:
                break
            frame.next = data + used + FRAME_HEAD_SIZE
            frame.left = <size_t>length
            if envelope_read(frame, &self.shared.apis, &head) != ENVELOPE_OK:
                self.close("request with a key, version or header that is not served")
                return -1
            self.shared.requests += 1
            if not self.serve(&head):
                return -1
            used += FRAME_HEAD_SIZE + <size_t>length
        return <Py_ssize_t>used

    cdef bint serve(self, RequestHead* head):
        """Start one request; False when the connection was closed over it."""
        cdef ServeStatus status = NOT_SERVED
        cdef ReplySlot* slot = NULL
        if head.api_key == KEY_PRODUCE:
            status = produce_serve(self.shared.topics, self.shared.turn, head, &slot)
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
            session = self.shared.fetch_sessions.begin(
                self.shared.topics, self.shared.turn, head, &status)
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
        wheel_set(&self.shared.wheel, &self.timer, self.shared.monotonic_ms + session.wait_ms)

    cdef void answer_fetch(self):
        cdef FetchSession session = self.parked
        wheel_clear(&self.shared.wheel, &self.timer)
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
        self.shared.slow.append(pending)

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
            self.shared.touched.append(self)

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
        if self.is_closed:
            return
        self.is_closed = True
        self.shared.connections.pop(self.fd, None)
        c_close(self.fd)
        wheel_clear(&self.shared.wheel, &self.timer)
        if self.parked is not None:
            self.parked.unpark()
            self.parked = None
        self.drop_replies()
        self.drop_partial()
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
