from libc.stdint cimport uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.wire.connection cimport Connection, NativeProtocol
from broker._native.wire.rustlog_counters cimport RustLogCounters


cdef class RustLog(NativeProtocol):
    cdef readonly RustLogCounters counters
    cdef bytes write_failed               # a whole frame
    cdef uint8_t refused[5]               # what a frame begins with that is not taken
    cdef size_t refused_size

    cdef bint serve_produce(self, Connection connection, Cursor body)
    cdef bint serve_fetch(self, Connection connection, Cursor body)
    cdef void serve_slowly(self, Connection connection, Cursor frame, bint is_json)
    cdef void count_connections(self, Connection connection)
