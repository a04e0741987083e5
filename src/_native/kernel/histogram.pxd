"""Histograms of times: fixed buckets that double, so that adding is a shift and two additions.

    bucket 0    up to 64 us
    bucket n    up to 64 us * 2^n
    the last    everything above 67 s
"""

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    HISTOGRAM_FIRST_SHIFT = 6     # 64 us: the disk and the network take longer
    HISTOGRAM_BUCKETS = 22

cdef struct Histogram:
    uint64_t[HISTOGRAM_BUCKETS] counts
    int64_t sum_us


cdef extern from *:
    int __builtin_clzll(unsigned long long value) noexcept nogil


cdef inline void histogram_add(Histogram* histogram, int64_t us) noexcept nogil:
    """Count a time; one below 0, of a clock that is read less often, counts as 0."""
    cdef int place = 0
    if us > 1 << HISTOGRAM_FIRST_SHIFT:
        place = 64 - __builtin_clzll(<unsigned long long>(us - 1)) - HISTOGRAM_FIRST_SHIFT
        if place >= HISTOGRAM_BUCKETS:
            place = HISTOGRAM_BUCKETS - 1
    if us > 0:
        histogram.sum_us += us
    histogram.counts[place] += 1


cdef tuple histogram_state(const Histogram* histogram)
