from broker._native.kernel.cursor cimport Cursor
from broker._native.wire.connection cimport Connection, NativeProtocol
from broker._native.wire.cursus_publish cimport RoundRobin


cdef class Cursus(NativeProtocol):
    cdef RoundRobin turns

    cdef bint serve_slowly(self, Connection connection, Cursor frame)
