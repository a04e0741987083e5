from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport Turn
from broker._native.wire.fetch cimport FetchSession, FetchSessions
from broker._native.wire.frame_memory cimport FrameMemory, Kept
from broker._native.wire.output_queue cimport OutputQueue
from broker._native.wire.reply_slot cimport ReplySlot
from broker._native.wire.timer_wheel cimport Timer, TimerWheel
from broker._native.wire.unseen_writes cimport UnseenWrites


cdef class PollerState:
    cdef readonly int epoll_fd
    cdef readonly Turn turn
    cdef readonly TopicTable topics
    cdef readonly FetchSessions fetch_sessions
    cdef TimerWheel wheel                 # deadlines of parked fetches, keepalives of flows
    cdef int64_t monotonic_ms             # of this turn
    cdef int64_t late_us                  # monotonic: when requests have had their share of it
    cdef bint is_late                     # they have, when it was looked at last
    cdef int work                         # done since then, in requests of the usual kind
    cdef uint8_t* receive                 # what one recv fills
    cdef FrameMemory memory               # of what has come in and is not served
    cdef readonly dict connections        # fd → Connection
    cdef list touched                     # connections with something to send
    cdef list slow                        # PendingReply for Python
    cdef object on_close                  # called with (connection, reason)
    cdef list dialects                    # by Protocol; None: not served
    cdef readonly uint64_t closed_undecided
    cdef readonly int64_t reply_memory_bytes    # held of replies, of all connections

    cdef void share_until(self, int64_t late_us) noexcept
    cdef bint looks_late(self) noexcept
    cdef void shed_replies(self)


# What stands before an answer: nothing, or a length of what follows it and up to five bytes more.
cdef struct ReplyHead:
    uint32_t size
    uint8_t data[9]


cdef class NativeProtocol:
    """How one wire protocol cuts a connection's bytes into requests, and serves them."""

    cdef readonly object protocol         # serves what is left to Python
    cdef readonly bint is_closed_idle     # after connections.max.idle.ms of silence
    cdef readonly bint answers_after_end  # a peer that has said its last word still gets answers
    cdef readonly uint64_t connections
    cdef readonly uint64_t requests

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept
    cdef int64_t announced(self, const uint8_t* data, size_t size) noexcept
    cdef bint is_write(self, Cursor frame) noexcept
    cdef bint serve(self, Connection connection, Cursor frame)
    cdef void answered(self, int64_t begun_ns) noexcept
    cdef void refuse(self, Connection connection, int64_t cut)
    cdef void serve_last(self, Connection connection, Cursor rest)


cdef class Flow:
    """Frames that follow a request by themselves, until their end; see wire/cursus_stream."""

    cdef Connection connection            # None before it begins, and once it is over

    cdef bint go_on(self)
    cdef bint has_more(self) noexcept
    cdef void woken(self)
    cdef void due(self)
    cdef void ended(self)
    cdef void must_stop(self)


cdef class PendingReply:
    cdef ReplySlot* slot
    cdef ReplyHead head
    cdef readonly Connection connection
    cdef readonly object protocol
    cdef readonly int api_key
    cdef readonly int api_version
    cdef readonly object client_id
    cdef readonly bytes body              # None once it was taken
    cdef int64_t counted                  # of the shared memory of frames: the body waits

    cdef void uncount(self) noexcept
    cdef void finish(self, bint is_busy) except *


cdef class Connection:
    cdef readonly int fd
    cdef PollerState shared
    cdef readonly str peer_host           # the client's address
    cdef public object session            # what the protocol keeps per connection
    cdef NativeProtocol dialect                  # None: too few bytes so far
    cdef uint8_t manners                  # what the dialect remembers of it
    cdef bint expects_long                # the last frame filled most of a read by itself
    cdef Kept kept                        # a frame that is not whole yet, or frames that wait
    cdef ReplySlot* slots_head
    cdef ReplySlot* slots_tail
    cdef int64_t slots_bytes              # what they take, with the replies in them
    cdef int32_t slots_waiting            # how many of them wait for a write or for Python
    cdef UnseenWrites unseen              # that no slot waits for
    cdef OutputQueue output
    cdef FetchSession parked              # the long poll it waits on, or None
    cdef Flow flow                        # what it sends by itself, or None
    cdef Timer timer
    cdef bint is_busy                     # a request is being served that later ones wait behind
    cdef bint is_held                     # busy until its earlier writes are visible and answered
    cdef bint is_closed
    cdef bint is_closing                  # close once everything has been sent
    cdef bint has_ended                   # the peer says no more, and waits for its answers
    cdef bint is_touched
    cdef bint has_waiting                 # whole requests may be in `kept`: they come first
    cdef uint32_t interest                # what epoll watches
    cdef int64_t active_ms                # monotonic: last byte in, or out
    cdef uint64_t round                   # the poller's, in which it was served last

    cdef void on_event(self, uint32_t events)
    cdef bint is_full(self) noexcept
    cdef void read(self)
    cdef bint receive(self)
    cdef void listen(self)
    cdef void begin_anew(self) noexcept
    cdef void enqueue(self, ReplySlot* slot)
    cdef bint note_unseen(self, PartitionLog log, int64_t end_offset) noexcept
    cdef bint must_wait(self, Cursor frame)
    cdef bint wait_for_unseen(self)
    cdef bint decide(self, const uint8_t* data, size_t size)
    cdef Py_ssize_t take_frames(self, uint8_t* data, size_t size)
    cdef void park(self, FetchSession session)
    cdef void answer_fetch(self)
    cdef void woken(self)
    cdef void due(self)
    cdef void end_flow(self, bytes last, bint is_last)
    cdef PendingReply hand_over(self, Cursor body)
    cdef void reply(self, const uint8_t* data, size_t size)
    cdef void end(self)
    cdef void keep(self, const uint8_t* data, size_t size, bint is_same_frame)
    cdef void resume(self)
    cdef void drain(self)
    cdef bint is_unread(self) noexcept
    cdef bint owes_nothing(self) noexcept
    cdef void send(self)
    cdef void watch(self, uint32_t interest)
    cdef void touch(self)
    cdef void close(self, str reason)
    cdef void drop_replies(self) noexcept
