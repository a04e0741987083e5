from libc.stdint cimport uint8_t

from broker._native.wire.connection cimport Verdict


cdef Verdict cursus_recognizes(const uint8_t* data, size_t size) noexcept nogil
