"""RustLog's metrics, counted by the native path and by Python alike."""

cimport cython
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec


cdef int64_t now_ns() noexcept nogil:
    """Return the monotonic clock."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef void latency_add(Latencies* latencies, int64_t ns) noexcept nogil:
    """Add a latency, in place of the oldest."""
    latencies.ns[latencies.count % LATENCIES_KEPT] = ns
    latencies.count += 1


cdef percentiles(Latencies* latencies):
    cdef uint64_t i, count = min(latencies.count, LATENCIES_KEPT)
    newest = sorted([latencies.ns[i] for i in range(count)])
    return tuple([newest[count * share // 100] if count > 0 else 0 for share in (50, 95, 99)])


@cython.final
cdef class RustLogCounters:
    """Counts since the start, latencies of the newest requests, and the number of connections.

    That number is updated when the metrics are requested.
    """

    def add_produce_latency(self, int64_t ns):
        """Add the latency of a produce, up to its answer."""
        latency_add(&self.produces, ns)

    def add_fetch_latency(self, int64_t ns):
        """Add the latency of a fetch."""
        latency_add(&self.fetches, ns)

    @property
    def produce_percentiles(self):
        """The 50th, 95th and 99th percentile of the newest produces, in nanoseconds."""
        return percentiles(&self.produces)

    @property
    def fetch_percentiles(self):
        """The same percentiles of the newest fetches."""
        return percentiles(&self.fetches)

    @staticmethod
    def now_ns():
        """Return the clock of all latencies: monotonic, in nanoseconds."""
        return now_ns()
