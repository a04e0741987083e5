from broker._native.wire.connection cimport NativeProtocol


cdef class Http(NativeProtocol):
    pass
