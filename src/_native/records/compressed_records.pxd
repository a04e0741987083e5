from libc.stdint cimport int64_t, uint8_t

from broker._native.records.record_batch cimport BatchInfo

cdef bint compressed_records_are_valid(
        object decompress, const uint8_t* batch, const BatchInfo* info, bint need_keys,
        int64_t* left) noexcept
