"""What is counted of the requests of one API.

    queue      in Python's queue; of the native paths, in which there is none, nothing
    local      served: of the native paths a sample, one in METER_SAMPLE
    remote     waited for the disk, for replicas, or for records
    total      from the turn in which it was read to the turn in which its answer is sent

The clock is read once per turn for `total` and `remote`, not per request.
"""

from libc.stdint cimport uint64_t

from broker._native.kernel.histogram cimport Histogram

cdef enum:
    METER_VERSIONS = 24       # requests of higher versions count as the last
    METER_SAMPLE = 64

cdef struct RequestMeter:
    uint64_t[METER_VERSIONS] requests     # by version
    Histogram total
    Histogram queue
    Histogram local
    Histogram remote


cdef tuple meter_state(const RequestMeter* meter)
