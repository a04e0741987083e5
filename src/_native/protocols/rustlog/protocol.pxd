from libc.stdint cimport uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.protocols.rustlog.counters cimport RustLogCounters
from broker._native.wire.connection cimport Connection, NativeProtocol


cdef class RustLog(NativeProtocol):
    cdef readonly RustLogCounters counters
    cdef bytes write_failed               # the answer to a produce whose log fails: a whole frame
    cdef uint8_t refused[5]               # the first bytes of an invalid frame
    cdef size_t refused_size

    cdef bint serve_produce(self, Connection connection, Cursor body)
    cdef bint serve_fetch(self, Connection connection, Cursor body)
    cdef void serve_in_python(
        self, Connection connection, Cursor frame, int operation, bint is_json)
    cdef void count_connections(self, Connection connection)
