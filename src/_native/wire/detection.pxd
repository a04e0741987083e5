from libc.stdint cimport uint8_t

from broker._native.wire.connection cimport NativeProtocol


cdef NativeProtocol protocol_of(
    dict protocols, const uint8_t* data, size_t size, bint* is_decided)
