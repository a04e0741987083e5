from libc.stdint cimport uint8_t

from broker._native.records.record_batch cimport BatchInfo

cdef bint all_have_keys(const uint8_t* batch, const BatchInfo* info) noexcept nogil
