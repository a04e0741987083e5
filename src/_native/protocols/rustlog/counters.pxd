from libc.stdint cimport int64_t, uint64_t

cdef enum:
    LATENCIES_KEPT = 1024     # the newest ones, as many as in the original

cdef struct Latencies:
    int64_t[LATENCIES_KEPT] ns
    uint64_t count            # of all so far


cdef int64_t now_ns() noexcept nogil
cdef void latency_add(Latencies* latencies, int64_t ns) noexcept nogil


cdef class RustLogCounters:
    cdef public uint64_t messages_produced
    cdef public uint64_t messages_fetched
    cdef public uint64_t bytes_in
    cdef public uint64_t bytes_out
    cdef public uint64_t active_connections
    cdef Latencies produces
    cdef Latencies fetches
