from broker._native.wire.connection cimport Dialect


cdef class Http(Dialect):
    pass
