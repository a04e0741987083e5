from libc.stdint cimport int64_t

from broker._native.protocols.v1.consume cimport ConsumeReader
from broker._native.protocols.v1.line cimport Line
from broker._native.protocols.v1.produce cimport Refusal
from broker._native.wire.connection cimport Connection, NativeProtocol


cdef class V1(NativeProtocol):
    cdef public bint has_followers        # V1 followers are registered: Python serves PRODUCE
    cdef bytes refusal_line               # owns what `refusal` points to
    cdef Refusal refusal
    cdef ConsumeReader consume_reader

    cdef bint consume(self, Connection connection, Line* line)
