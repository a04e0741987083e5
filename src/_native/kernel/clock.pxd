"""The system's clocks."""

from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec


cdef inline int64_t clock_ms(int clock) noexcept nogil:
    """Return the time of a clock (CLOCK_MONOTONIC, CLOCK_REALTIME) in whole milliseconds."""
    cdef timespec now
    clock_gettime(clock, &now)
    return <int64_t>now.tv_sec * 1000 + now.tv_nsec // 1000000


cdef inline int64_t monotonic_ns() noexcept nogil:
    """Return CLOCK_MONOTONIC in nanoseconds."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000000 + now.tv_nsec


cdef inline int64_t monotonic_us() noexcept nogil:
    """Return CLOCK_MONOTONIC in whole microseconds."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1000000 + now.tv_nsec // 1000
