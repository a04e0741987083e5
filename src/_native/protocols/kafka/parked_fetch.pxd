from libc.stdint cimport int16_t, int32_t, int64_t

from broker._native.log.turn cimport Turn, WatchOwner
from broker._native.protocols.kafka.envelope cimport RequestHead
from broker._native.wire.connection cimport Connection, Wait
from broker._native.wire.output_queue cimport OutputQueue
from broker._native.wire.request_meter cimport RequestMeter

cdef enum FetchStatus:
    FETCH_READY               # call `reply` now
    FETCH_PARKED              # too few bytes yet: `park` until a log changes, or the deadline
    FETCH_NOT_SERVED          # nothing was changed: the Python handler serves the request


cdef class ParkedFetch(Wait):
    cdef WatchOwner owner
    cdef Turn turn
    # The request that is being served:
    cdef int16_t version
    cdef bint is_flexible
    cdef int32_t correlation_id
    cdef int16_t error
    cdef int32_t bytes_min
    cdef int32_t bytes_max
    cdef public int32_t wait_ms
    cdef RequestMeter* meter              # counts its requests, or NULL
    cdef bint is_of_replica               # set once, by its subclass
    cdef int64_t read_us                  # when the request was read
    cdef int64_t throttle_ms              # told in its last reply; 0: within the quotas

    cdef void sweep(self) noexcept
    cdef void unmark_all(self) noexcept
    cdef void begin_request(self, RequestHead* head) noexcept
    cdef void park(self, Connection connection)
    cdef void answer(self)
    cdef void send(self, Connection connection)
    cdef bint has_enough(self) noexcept
    cdef void reply(self, OutputQueue* queue) noexcept
