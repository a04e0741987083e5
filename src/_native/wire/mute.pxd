from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.wire.connection cimport Connection, Wait
from broker._native.wire.quota cimport ClientQuota


cdef class Mute(Wait):
    pass


cdef ClientQuota quota_of(Connection connection, const uint8_t* client_id, int32_t size)
cdef void mute(Connection connection, int64_t delay_ms)
cdef void meter(Connection connection) except *
