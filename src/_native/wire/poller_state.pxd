from libc.stdint cimport int64_t, uint8_t, uint64_t

from broker._native.kernel.histogram cimport Histogram
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport Turn
from broker._native.wire.frame_memory cimport FrameMemory
from broker._native.wire.timer_wheel cimport TimerWheel


cdef class PollerState:
    cdef readonly int epoll_fd
    cdef readonly Turn turn
    cdef readonly TopicTable topics
    cdef public bint authorizes           # sessions have `permissions` (permitted.pxd)
    cdef TimerWheel wheel                 # of the connections, one each
    cdef int64_t monotonic_ms             # the clock, as read for this turn
    cdef int64_t turn_us                  # the same, in microseconds: when this turn has begun
    cdef int64_t clock_us                 # a later reading in the same turn
    cdef int64_t budget_end_us            # monotonic: when the time budget of requests ends
    cdef bint is_over_budget              # whether it had ended at the last check
    cdef int work                         # done since that check, in units of an ordinary request
    cdef uint8_t* receive                 # the buffer of one recv
    cdef uint8_t* scratch                 # a piece of what a TLS connection receives or sends
    cdef int handshake_steps              # of TLS, in this turn
    cdef FrameMemory memory               # of received bytes that are not served yet
    cdef readonly dict connections        # fd → Connection
    cdef list to_drain                    # connections with something to send or to serve
    cdef list python_requests             # PendingReply, not handed to Python yet
    cdef object on_close                  # called with (connection, reason)
    cdef object find_quota                # returns what limits a connection; None: no quotas
    cdef uint64_t quota_epoch             # changes when the quotas do
    cdef dict protocols                   # name → NativeProtocol, in the order of detection
    cdef readonly uint64_t closed_undecided
    cdef readonly uint64_t accepted       # connections, since the start
    cdef readonly uint64_t bytes_received
    cdef readonly uint64_t bytes_sent
    cdef readonly uint64_t rests          # of clients above a quota
    cdef readonly uint64_t rest_ms        # which they have been told, in all
    cdef readonly uint64_t polls          # turns in which something was ready
    cdef readonly int64_t parked          # answers that wait now, and streams
    cdef Histogram sends                  # from an answer's first byte to its last one
    cdef readonly int64_t reply_memory_bytes    # of replies in memory, over all connections

    cdef void start_budget(self, int64_t budget_end_us) noexcept
    cdef bint check_budget(self) noexcept
    cdef void shed_replies(self)
