from libc.stdint cimport int32_t, uint8_t

from broker._native.records.record_batch cimport BatchInfo


cdef void old_sets_begin() noexcept
cdef bint old_set_take(const uint8_t** records, int32_t* size, BatchInfo* info) noexcept
