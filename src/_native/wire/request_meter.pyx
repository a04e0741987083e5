"""What is counted of the requests of one API, for Python; see request_meter.pxd."""

from broker._native.kernel.histogram cimport histogram_state


cdef tuple meter_state(const RequestMeter* meter):
    """Return (requests by version, errors by number, total, queue, local, remote)."""
    cdef int i
    return (
        tuple([meter.requests[i] for i in range(METER_VERSIONS)]),
        {i - 1: meter.errors[i] for i in range(METER_ERRORS) if meter.errors[i] > 0},
        histogram_state(&meter.total),
        histogram_state(&meter.queue),
        histogram_state(&meter.local),
        histogram_state(&meter.remote),
    )
