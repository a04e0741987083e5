from broker._native.kernel.cursor cimport Cursor
from broker._native.wire.connection cimport Connection, Dialect
from broker._native.wire.cursus_publish cimport RoundRobin


cdef class Cursus(Dialect):
    cdef RoundRobin turns

    cdef bint serve_slowly(self, Connection connection, Cursor frame)
