"""How many bytes per second replicas that are not in sync may copy.

What was copied is subtracted afterwards, so one answer may exceed the rate. Nothing more is copied
then until the time for it has passed. Bytes that are not used are kept for one second.
"""

cimport cython
from libc.stdint cimport INT64_MAX, int64_t


@cython.final
cdef class Throttle:
    """A rate, and what may be copied now; without limit until `rate` is set."""

    def __cinit__(self):
        self.bytes_per_second = INT64_MAX
        self.filled_ms = -1

    @property
    def rate(self):
        """Bytes per second; 2^63 - 1: no limit."""
        return self.bytes_per_second

    @rate.setter
    def rate(self, int64_t rate):
        if self.bytes_per_second == INT64_MAX:
            self.left = <double>rate
            self.filled_ms = -1
        self.bytes_per_second = rate
        self.left = min(self.left, <double>rate)

    cdef void fill(self, int64_t now_ms) noexcept:
        cdef double rate = <double>self.bytes_per_second
        if now_ms > self.filled_ms >= 0:
            self.left = min(self.left + rate * (now_ms - self.filled_ms) / 1000, rate)
        self.filled_ms = now_ms

    cdef bint is_spent(self, int64_t now_ms) noexcept:
        """Return whether nothing may be copied now; `now_ms` is of `Turn.steady_ms`."""
        if self.bytes_per_second == INT64_MAX:
            return False
        self.fill(now_ms)
        return self.left <= 0

    cdef void spend(self, int64_t size) noexcept:
        if self.bytes_per_second != INT64_MAX:
            self.left -= <double>size

    cdef int64_t share(self, int64_t size_max) noexcept:
        """Return how much to copy at once: up to what is allowed in a second."""
        return min(size_max, max(self.bytes_per_second, <int64_t>1))
