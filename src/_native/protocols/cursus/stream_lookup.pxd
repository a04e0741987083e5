from broker._native.log.partition_log cimport PartitionLog
from broker._native.protocols.cursus.stream_heads cimport StreamHeads
from broker._native.wire.connection cimport Connection, Wait


cdef class StreamLookup(Wait):
    cdef StreamHeads heads
    cdef readonly bytes key


cdef bint lookup_take(Connection connection) noexcept
cdef bint lookup_begin(
    Connection connection, StreamHeads heads, PartitionLog log, bytes key) except -1
