from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from broker._native.kernel.sampled_rate cimport SampledRate

cdef enum:
    NS_PER_MS = 1000000


cdef class QuotaBucket:
    cdef SampledRate rate
    cdef double _bound                    # per second
    cdef int64_t throttle_ms_max
    cdef public int64_t used_ms           # monotonic: when it was last used
    cdef public bint is_dropped           # another bucket counts for its owner from now on

    cpdef int64_t add(self, double amount, int64_t now_ms) noexcept
    cpdef int64_t admit(self, double amount, int64_t now_ms) noexcept
    cpdef int64_t excess_ms(self, double amount, int64_t now_ms) noexcept
    cdef double burst_now(self) noexcept
    cdef int64_t throttle_ms(self, int64_t now_ms) noexcept


cdef class ClientQuota:
    cdef readonly QuotaBucket writes      # bytes of requests that write; None: no quota
    cdef readonly QuotaBucket reads       # bytes of responses with what is read
    cdef readonly QuotaBucket time        # percents of the loop's time
    cdef readonly object mutations        # partitions created and deleted: of Python only
    cdef readonly uint64_t epoch
    cdef bytes client_id

    cdef bint is_for(self, uint64_t epoch, const uint8_t* client_id, int32_t size) noexcept


cdef inline double percents(int64_t duration_ns) noexcept nogil:
    """Return what a time of the loop is in the unit of `ClientQuota.time`."""
    return <double>duration_ns * 100 / 1e9
