from broker._native.kernel.cursor cimport Cursor
from broker._native.protocols.cursus.publish cimport RoundRobin
from broker._native.wire.connection cimport Connection, NativeProtocol


cdef class Cursus(NativeProtocol):
    cdef RoundRobin round_robin

    cdef bint serve_in_python(self, Connection connection, Cursor frame)
