"""The system's clocks in milliseconds."""

from libc.stdint cimport int64_t
from posix.time cimport clock_gettime, timespec


cdef inline int64_t clock_ms(int clock) noexcept nogil:
    """What a clock (CLOCK_MONOTONIC, CLOCK_REALTIME) shows, in whole milliseconds."""
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000
