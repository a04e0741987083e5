from libc.stdint cimport int32_t

from broker._native.protocols.kafka.envelope cimport ApiTable, RequestHead
from broker._native.protocols.kafka.fetch cimport FetchSessions
from broker._native.wire.connection cimport Connection, NativeProtocol


cdef class Kafka(NativeProtocol):
    cdef ApiTable apis
    cdef readonly FetchSessions sessions
    cdef readonly int32_t frame_bytes_max

    cdef void serve_fetch(self, Connection connection, RequestHead* head)
    cdef void serve_in_python(self, Connection connection, RequestHead* head)
