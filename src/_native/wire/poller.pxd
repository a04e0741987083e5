from libc.stdint cimport int64_t

from broker._native.wire.connection cimport Shared


cdef class Poller(Shared):
    cdef int timer_fd
    cdef int64_t timer_armed_ms           # monotonic; -1 = not set
    cdef object dispatch                  # called with `slow`

    cdef int listen_to(self, int fd) except -1
    cdef void take_timer(self)
    cdef void end_turn(self)
    cdef void hand_over(self)
    cdef void finish_acks(self)
    cdef void wake_fetches(self)
    cdef void expire(self)
    cdef void arm(self)
