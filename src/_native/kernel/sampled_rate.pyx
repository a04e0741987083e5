"""How much per second, over the last windows: the arithmetic of Kafka's quotas (SampledStat, Rate).

A sample begins with the first amount after the one before has lasted a window, so they need not
follow each other. One that overlaps the windows counts whole, which is why there is one more sample
than windows. The time that the sum is divided by is that since the oldest sample began, but at
least all windows but the last, which is as far as it has come: a first burst is not seen as a rate.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free


cdef bint rate_init(SampledRate* rate, int windows, int64_t window_ms) noexcept nogil:
    """Begin without samples; return False without memory."""
    rate.samples = <Sample*>calloc(windows + 1, sizeof(Sample))
    rate.count = rate.current = 0
    rate.windows = windows
    rate.window_ms = window_ms
    return rate.samples != NULL


cdef void rate_free(SampledRate* rate) noexcept nogil:
    free(rate.samples)
    rate.samples = NULL
    rate.count = 0


cdef inline void restart(Sample* sample, int64_t now_ms) noexcept nogil:
    sample.started_ms = sample.grown_ms = now_ms
    sample.amount = 0


cdef void rate_add(SampledRate* rate, double amount, int64_t now_ms) noexcept nogil:
    """Add an amount to the sample of this time; a negative one takes back what was just added."""
    cdef Sample* sample = &rate.samples[rate.current]
    if rate.count == 0:
        rate.count = 1
        restart(sample, now_ms)
    elif now_ms - sample.started_ms >= rate.window_ms:
        rate.current = (rate.current + 1) % (rate.windows + 1)
        rate.count = max(rate.count, rate.current + 1)
        sample = &rate.samples[rate.current]
        restart(sample, now_ms)
    sample.amount += amount
    sample.grown_ms = now_ms


cdef double rate_sum(SampledRate* rate, int64_t now_ms, int64_t* span_ms) noexcept nogil:
    """Return the sum of the samples that count; `span_ms` becomes the time to divide it by."""
    cdef int64_t kept_ms = rate.windows * rate.window_ms, oldest_ms = now_ms, full
    cdef double total = 0
    cdef Sample* sample
    cdef int i
    for i in range(rate.count):
        sample = &rate.samples[i]
        if now_ms - sample.grown_ms >= kept_ms:
            restart(sample, now_ms)
        total += sample.amount
        oldest_ms = min(oldest_ms, sample.started_ms)
    span_ms[0] = now_ms - oldest_ms
    full = span_ms[0] // rate.window_ms
    if full < rate.windows - 1:
        span_ms[0] += (rate.windows - 1 - full) * rate.window_ms
    span_ms[0] = max(span_ms[0], 1)
    return total
