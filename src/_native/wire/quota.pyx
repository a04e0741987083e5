"""Quotas of clients: the buckets that count what their requests take.

    requests -- QuotaBucket.add --> within its bound: 0
                                '-> above it: for how long nothing may be used, so that it is again

A bucket is that of a user, of a client id, or of both; connections share it.
"""

cimport cython
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcmp

from broker._native.kernel.sampled_rate cimport rate_add, rate_free, rate_init, rate_sum

from broker.model import security_limits

cdef int CLIENT_ID_BYTES_KEPT = security_limits.QUOTA_NAME_BYTES_KEPT


@cython.final
cdef class QuotaBucket:
    """What an owner of a quota has used, and what it may use per second."""

    def __cinit__(self, double bound, int windows, int64_t window_ms, *,
                  int64_t throttle_ms_max=INT32_MAX):
        """Start empty.

        `throttle_ms_max` is the longest time for which one use may be punished.
        """
        if bound <= 0 or windows < 1 or window_ms < 1:
            raise ValueError(f"a bound of {bound} over {windows} windows of {window_ms} ms")
        self._bound = bound
        self.throttle_ms_max = throttle_ms_max
        if not rate_init(&self.rate, windows, window_ms):
            raise MemoryError

    def __dealloc__(self):
        rate_free(&self.rate)

    @property
    def bound(self):
        """What may be used per second; a new one applies to what has been used already."""
        return self._bound

    @bound.setter
    def bound(self, double bound):
        if bound <= 0:
            raise ValueError(f"a bound of {bound}")
        self._bound = bound

    @property
    def burst(self):
        """What may be used at once after a pause."""
        return self.burst_now()

    cdef double burst_now(self) noexcept:
        return self._bound * max(self.rate.windows - 1, 1) * self.rate.window_ms / 1000

    cpdef int64_t add(self, double amount, int64_t now_ms) noexcept:
        """Add what has been used; return for how long its owner has to rest, 0 within the bound."""
        rate_add(&self.rate, amount, now_ms)
        self.used_ms = now_ms
        return self.throttle_ms(now_ms)

    cpdef int64_t excess_ms(self, double amount, int64_t now_ms) noexcept:
        """Return for how long the owner would have to rest if it used this much more."""
        cdef int64_t rest_ms = self.add(amount, now_ms)
        rate_add(&self.rate, -amount, now_ms)
        return rest_ms

    cpdef int64_t admit(self, double amount, int64_t now_ms) noexcept:
        """Add what is within the bound and return 0; else how long the owner has to wait."""
        cdef int64_t rest_ms = self.add(amount, now_ms)
        if rest_ms > 0:
            rate_add(&self.rate, -amount, now_ms)
        return rest_ms

    cdef int64_t throttle_ms(self, int64_t now_ms) noexcept:
        # For so long nothing may be used until the rate is the bound, if the sum stays the same.
        cdef int64_t span_ms = 0
        cdef double total = rate_sum(&self.rate, now_ms, &span_ms)
        cdef double per_second = total * 1000 / span_ms
        cdef double rest_ms
        if per_second <= self._bound:
            return 0
        rest_ms = (per_second - self._bound) / self._bound * span_ms
        return <int64_t>(min(max(rest_ms, 1.0), <double>self.throttle_ms_max) + 0.5)


@cython.final
cdef class ClientQuota:
    """The buckets that count for the requests of one connection with one client id."""

    def __cinit__(self, bytes client_id, uint64_t epoch, *, QuotaBucket writes=None,
                  QuotaBucket reads=None, QuotaBucket time=None, mutations=None):
        """Keep them; `epoch` is that of the quotas they follow from."""
        if client_id is None or len(client_id) <= CLIENT_ID_BYTES_KEPT:
            self.client_id = client_id
        self.epoch = epoch
        self.writes = writes
        self.reads = reads
        self.time = time
        self.mutations = mutations

    @property
    def is_unlimited(self):
        """Whether there is no quota."""
        return (self.writes is None and self.reads is None and self.time is None
                and self.mutations is None)

    cdef bint is_for(self, uint64_t epoch, const uint8_t* client_id, int32_t size) noexcept:
        """Return whether it counts for a client id, NULL for null, under the quotas as they are."""
        if self.epoch != epoch or (self.client_id is None) != (client_id == NULL):
            return False    # also if it is too long to be kept
        if client_id != NULL and (len(self.client_id) != size or memcmp(
                <const char*>self.client_id, client_id, <size_t>size) != 0):
            return False
        return not (is_dropped(self.writes) or is_dropped(self.reads) or is_dropped(self.time))


cdef inline bint is_dropped(QuotaBucket bucket) noexcept:
    return bucket is not None and bucket.is_dropped
