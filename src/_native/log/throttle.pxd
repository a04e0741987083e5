from libc.stdint cimport int64_t


cdef class Throttle:
    cdef int64_t bytes_per_second         # INT64_MAX: no limit
    cdef double left                      # bytes that may be copied now; below 0: too many were
    cdef int64_t filled_ms                # of Turn.steady_ms: up to when `left` counts; -1: not yet

    cdef void fill(self, int64_t now_ms) noexcept
    cdef bint is_spent(self, int64_t now_ms) noexcept
    cdef void spend(self, int64_t size) noexcept
    cdef int64_t share(self, int64_t size_max) noexcept
