from broker._native.kernel.cursor cimport Cursor
from broker._native.wire.connection cimport Connection, NativeProtocol
from broker._native.wire.cursus_publish cimport RoundRobin


cdef class Cursus(NativeProtocol):
    cdef RoundRobin round_robin

    cdef bint serve_in_python(self, Connection connection, Cursor frame)
