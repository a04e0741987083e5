from broker._native.protocols.cursus.publish cimport RoundRobin
from broker._native.wire.connection cimport NativeProtocol


cdef class Cursus(NativeProtocol):
    cdef RoundRobin round_robin
