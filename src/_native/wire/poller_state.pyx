"""What all connections share: memory, timers, the time budget, what is left to do in a turn."""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc

from broker._native.kernel.clock cimport monotonic_us
from broker._native.wire.buffer_pool cimport pool_trim

from broker.model import limits, tls_limits

cdef enum:
    # The clock is read about every 100 us if all requests are ordinary.
    WORK_PER_CLOCK_READ = 64

cdef size_t RECEIVE_BYTES_PER_TURN = limits.RECEIVE_BYTES_PER_TURN
cdef int64_t UNFINISHED_FRAMES_BYTES_MAX = limits.UNFINISHED_FRAMES_BYTES_MAX


cdef class PollerState:
    """State that all connections share; the base class of Poller."""

    def __cinit__(self):
        self.connections = {}
        self.to_drain = []
        self.python_requests = []
        self.receive = <uint8_t*>malloc(RECEIVE_BYTES_PER_TURN)
        self.scratch = <uint8_t*>malloc(tls_limits.TLS_SCRATCH_BYTES)
        if self.receive == NULL or self.scratch == NULL:
            raise MemoryError
        self.protocols = {}
        self.memory.bytes_max = UNFINISHED_FRAMES_BYTES_MAX

    def __dealloc__(self):
        free(self.receive)
        free(self.scratch)
        pool_trim(&self.memory.pool)

    cdef void start_budget(self, int64_t budget_end_us) noexcept:
        """Allow requests to be served up to a time (monotonic, us)."""
        self.budget_end_us = budget_end_us
        self.is_over_budget = False
        self.work = 0
        self.handshake_steps = 0

    cdef bint check_budget(self) noexcept:
        """Return whether the time budget is used up; the clock is not read each time."""
        if self.work >= WORK_PER_CLOCK_READ:
            self.work = 0
            self.is_over_budget = monotonic_us() >= self.budget_end_us
        return self.is_over_budget

    cdef void shed_replies(self):
        """Close connections that do not read their replies, until the others' replies fit."""
