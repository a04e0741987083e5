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
from libc.stdint cimport int32_t, int64_t, uint8_t
from posix.time cimport CLOCK_MONOTONIC

from broker._native.kernel.clock cimport clock_ms
from broker._native.wire.connection cimport Connection, Wait
from broker._native.wire.quota cimport ClientQuota
from broker._native.wire.timer_wheel cimport wheel_set


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
    # From now on: the poller's clock may be that of its last turn, long ago.
    wheel_set(&connection.poller.wheel, &connection.timer, clock_ms(CLOCK_MONOTONIC) + delay_ms)
