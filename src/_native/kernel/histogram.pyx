"""Histograms of times, for Python; see histogram.pxd."""

from libc.stdint cimport int64_t

BOUNDS_US = tuple([1 << (HISTOGRAM_FIRST_SHIFT + i) for i in range(HISTOGRAM_BUCKETS - 1)])


cdef tuple histogram_state(const Histogram* histogram):
    """Return (counts of the buckets, sum in microseconds)."""
    cdef int i
    return tuple([histogram.counts[i] for i in range(HISTOGRAM_BUCKETS)]), histogram.sum_us


def bucket_of(int64_t us):
    """Return the bucket that counts a time, for tests."""
    cdef Histogram histogram
    cdef int i
    for i in range(HISTOGRAM_BUCKETS):
        histogram.counts[i] = 0
    histogram.sum_us = 0
    histogram_add(&histogram, us)
    counts, _ = histogram_state(&histogram)
    return counts.index(1)
