"""Connections that are not read for a time, since their clients are above a quota.

Which buckets limit a connection is what `PollerState.find_quota` says, a function of Python that is
called when the connection's client id or the quotas have changed. Without any quota there is no
such function, and that is all that is tested.

A mute connection is one with a Wait that its timer ends: it is not read, its answers are sent, and
nothing of it waits anywhere else. Bytes that it had sent before stay in its input. If others need
their memory, the connection is closed (`Poller.close_stalled_frames`).
"""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from posix.time cimport CLOCK_MONOTONIC

from broker._native.kernel.clock cimport clock_ms
from broker._native.wire.connection cimport Connection, Wait
from broker._native.wire.quota cimport ClientQuota
from broker._native.wire.timer_wheel cimport wheel_set

from broker.model import security_limits

cdef int64_t UNTOLD_REST_MS_MAX = security_limits.QUOTA_UNTOLD_REST_MS_MAX


@cython.final
cdef class Mute(Wait):
    """Nothing is read from its connection until its timer expires."""

    cdef void due(self):
        cdef Connection connection = self.connection
        connection.end_wait()
        connection.request_drain()


cdef ClientQuota quota_of(Connection connection, const uint8_t* client_id, int32_t size):
    """Return what limits a request with this client id; to be called if there is `find_quota`."""
    cdef ClientQuota found = connection.quota
    if found is None or not found.is_for(connection.poller.quota_epoch, client_id, size):
        name = None if client_id == NULL else PyBytes_FromStringAndSize(
            <const char*>client_id, size)
        found = connection.quota = connection.poller.find_quota(connection.session, name)
    return found


cdef void mute(Connection connection, int64_t delay_ms):
    """Read nothing more from a connection, whose request has just been answered, for a time."""
    if connection.is_closed or connection.is_closing or connection.is_busy or delay_ms <= 0:
        return
    connection.begin_wait(Mute())
    connection.poller.rests += 1
    connection.poller.rest_ms += <uint64_t>delay_ms
    # From now on: the poller's clock may be that of its last turn, long ago.
    wheel_set(&connection.poller.wheel, &connection.timer, clock_ms(CLOCK_MONOTONIC) + delay_ms)


cdef void meter(Connection connection) except *:
    """Count the bytes of a connection whose protocol does not do that itself; mute it if need be.

    Such protocols have no client ids, and no answer that could tell the time. A connection that
    waits for an answer is counted when it has it, and a stream when it ends.
    """
    cdef int64_t now_ms, rest_ms = 0
    cdef ClientQuota quota
    if connection.protocol is None or not connection.protocol.is_metered or connection.is_busy or (
            connection.written_bytes + connection.read_bytes == 0):
        return
    now_ms = clock_ms(CLOCK_MONOTONIC)
    quota = quota_of(connection, NULL, 0)
    if quota.writes is not None and connection.written_bytes > 0:
        rest_ms = quota.writes.add(<double>connection.written_bytes, now_ms)
    if quota.reads is not None and connection.read_bytes > 0:
        rest_ms = max(rest_ms, quota.reads.add(<double>connection.read_bytes, now_ms))
    connection.written_bytes = connection.read_bytes = 0
    # The end of some of these connections is seen only afterwards.
    mute(connection, min(rest_ms, UNTOLD_REST_MS_MAX))
