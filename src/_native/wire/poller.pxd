from libc.stdint cimport int64_t, uint32_t, uint64_t

from broker._native.wire.connection cimport Connection
from broker._native.wire.epoll cimport epoll_event
from broker._native.wire.poller_state cimport PollerState


cdef class Poller(PollerState):
    cdef int timer_fd
    cdef int64_t timer_armed_ms           # monotonic; -1: not set
    cdef int64_t steady_base_ms           # wall clock minus monotonic clock, at the start
    cdef object dispatch                  # called with new PendingReply objects
    cdef bint has_backlog                 # Python has not begun all that was handed to it
    cdef public int64_t budget_us         # per turn: for new input, and again for stored input
    cdef uint64_t round                   # in which no connection is served twice

    cdef int watch_fd(self, int fd, uint32_t events) except -1
    cdef int poll(self) except -1
    cdef void take_events(self, epoll_event* events, int count)
    cdef bint serve(self, Connection connection, uint32_t events)
    cdef void close_after_error(self, Connection connection)
    cdef void take_timer(self)
    cdef void end_turn(self)
    cdef void run_end(self)
    cdef bint has_python_requests(self)
    cdef void hand_over(self)
    cdef void drain_connections(self)
    cdef void finish_acks(self)
    cdef void wake_waits(self)
    cdef void expire(self)
    cdef void admit_waiting(self)
    cdef void arm(self)
