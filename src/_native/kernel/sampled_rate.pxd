from libc.stdint cimport int64_t

cdef struct Sample:
    int64_t started_ms
    int64_t grown_ms          # when it was last added to
    double amount

cdef struct SampledRate:
    Sample* samples           # one more than windows; those in use are the first ones
    int count
    int current
    int windows
    int64_t window_ms


cdef bint rate_init(SampledRate* rate, int windows, int64_t window_ms) noexcept nogil
cdef void rate_free(SampledRate* rate) noexcept nogil
cdef void rate_add(SampledRate* rate, double amount, int64_t now_ms) noexcept nogil
cdef double rate_sum(SampledRate* rate, int64_t now_ms, int64_t* span_ms) noexcept nogil
