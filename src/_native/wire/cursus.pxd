from broker._native.kernel.cursor cimport Cursor
from broker._native.wire.connection cimport Connection, Dialect


cdef class Cursus(Dialect):
    cdef bint serve_slowly(self, Connection connection, Cursor frame)
