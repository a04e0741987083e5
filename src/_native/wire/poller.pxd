from libc.stdint cimport int64_t, uint32_t, uint64_t

from broker._native.log.turn cimport LogStatus
from broker._native.wire.connection cimport Connection, PollerState
from broker._native.wire.epoll cimport epoll_event
from broker._native.wire.reply_slot cimport ReplySlot


cdef class Poller(PollerState):
    cdef int timer_fd
    cdef int64_t timer_armed_ms           # monotonic; -1 = not set
    cdef int64_t steady_base_ms           # what makes a wall time of the monotonic clock
    cdef object dispatch                  # called with `slow`
    cdef bint has_backlog                 # Python has not begun all that it was handed
    cdef public int64_t share_us          # of a turn: for what arrives, and again for what was kept
    cdef uint64_t round                   # in which nobody is served twice

    cdef int listen_to(self, int fd) except -1
    cdef int look(self) except -1
    cdef void take_events(self, epoll_event* events, int count)
    cdef bint serve(self, Connection connection, uint32_t events)
    cdef void give_up(self, Connection connection)
    cdef void take_timer(self)
    cdef void end_turn(self)
    cdef bint has_slow(self)
    cdef void hand_over(self)
    cdef void drain_touched(self)
    cdef void finish_acks(self)
    cdef void fail(self, ReplySlot* slot, uint32_t place, LogStatus status) noexcept
    cdef void wake_fetches(self)
    cdef void expire(self)
    cdef void let_on(self)
    cdef void arm(self)
