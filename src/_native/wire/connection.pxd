from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport Turn
from broker._native.wire.buffer_pool cimport BufferPool
from broker._native.wire.envelope cimport ApiTable, RequestHead
from broker._native.wire.fetch cimport FetchSession, FetchSessions
from broker._native.wire.output_queue cimport OutputQueue
from broker._native.wire.reply_slot cimport ReplySlot
from broker._native.wire.timer_wheel cimport Timer, TimerWheel


cdef class Shared:
    cdef readonly int epoll_fd
    cdef readonly Turn turn
    cdef readonly TopicTable topics
    cdef readonly FetchSessions fetch_sessions
    cdef ApiTable apis
    cdef TimerWheel wheel                 # deadlines of parked fetches
    cdef int64_t monotonic_ms             # of this turn
    cdef int32_t frame_bytes_max
    cdef uint8_t* receive                 # what one recv fills
    cdef BufferPool pool
    cdef readonly dict connections        # fd → Connection
    cdef list touched                     # connections with something to send
    cdef list slow                        # PendingReply for Python
    cdef object on_close                  # called with (connection, reason)
    cdef readonly uint64_t requests
    cdef readonly uint64_t closed_undecided


cdef class PendingReply:
    cdef ReplySlot* slot
    cdef readonly Connection connection
    cdef bint is_flexible
    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly int32_t correlation_id
    cdef readonly object client_id
    cdef readonly bytes body

    cdef void finish(self) except *


cdef class Connection:
    cdef readonly int fd
    cdef Shared shared
    cdef readonly str peer_host           # the client's address
    cdef public object session            # what the protocol keeps per connection
    cdef int8_t protocol
    cdef bint expects_long                # the last frame filled most of a read by itself
    cdef uint8_t* partial                 # bytes of a frame that is not whole yet, or unread frames
    cdef size_t partial_size
    cdef size_t partial_capacity
    cdef size_t partial_target            # size of the one long frame it will hold; 0 = not such
    cdef ReplySlot* slots_head
    cdef ReplySlot* slots_tail
    cdef int64_t slots_bytes
    cdef OutputQueue output
    cdef FetchSession parked              # the long poll it waits on, or None
    cdef Timer timer
    cdef bint is_busy                     # a request is being served that later ones wait behind
    cdef bint is_closed
    cdef bint is_closing                  # close once everything has been sent
    cdef bint is_touched
    cdef uint32_t interest                # what epoll watches
    cdef int64_t active_ms                # monotonic: last byte in, or out
    cdef int64_t frame_started_ms         # monotonic: since when a frame is incomplete; 0 = none

    cdef void on_event(self, uint32_t events)
    cdef bint is_full(self) noexcept
    cdef void read(self)
    cdef bint receive(self)
    cdef bint is_dripping(self, int64_t now_ms, int64_t stalled_ms_max) noexcept
    cdef void drop_partial(self) noexcept
    cdef void enqueue(self, ReplySlot* slot)
    cdef Py_ssize_t take_frames(self, uint8_t* data, size_t size)
    cdef bint serve(self, RequestHead* head)
    cdef void serve_fetch(self, RequestHead* head)
    cdef void answer_fetch(self)
    cdef void serve_slowly(self, RequestHead* head)
    cdef void keep(self, const uint8_t* data, size_t size, bint is_same_frame) except *
    cdef void resume(self)
    cdef void drain(self)
    cdef void send(self)
    cdef void watch(self, uint32_t interest)
    cdef void touch(self)
    cdef void close(self, str reason)
    cdef void drop_replies(self) noexcept
