"""What is counted of the requests of one API.

    queue      in Python's queue; of the native paths, in which there is none, nothing
    local      served: of the native paths a sample, one in METER_SAMPLE
    remote     waited for the disk, for replicas, or for records
    total      from the turn in which it was read to the turn in which its answer is sent

The clock is read once per turn for `total` and `remote`, not per request. Errors are counted where
an answer gets one: a request without any costs nothing.
"""

from libc.stdint cimport int16_t, uint64_t

from broker._native.kernel.histogram cimport Histogram

cdef enum:
    METER_VERSIONS = 24       # requests of higher versions count as the last
    METER_SAMPLE = 64
    METER_ERRORS = 160        # numbers of errors from -1 on; higher ones count as the last

cdef struct RequestMeter:
    uint64_t[METER_VERSIONS] requests     # by version
    uint64_t[METER_ERRORS] errors         # in answers of native paths, by number + 1
    Histogram total
    Histogram queue
    Histogram local
    Histogram remote


cdef tuple meter_state(const RequestMeter* meter)


cdef inline void meter_error(RequestMeter* meter, int16_t error) noexcept nogil:
    """Count an error of an answer, of the whole request or of one of its parts; 0 is none."""
    if error != 0 and meter != NULL:
        meter.errors[min(max(error, -1), METER_ERRORS - 2) + 1] += 1
