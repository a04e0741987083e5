from libc.stdint cimport int32_t, int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.record_batch cimport BatchInfo

cdef bint compressed_records_are_valid(
        object decompress, const uint8_t* batch, const BatchInfo* info, bint need_keys,
        int64_t* left) noexcept
cdef bint all_have_keys(Cursor records, int32_t count) noexcept nogil
