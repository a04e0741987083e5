from libc.stdint cimport int64_t, uint8_t

from broker._native.records.record_batch cimport BatchInfo

# The entries of an index file that were not compared yet, and how many matched no batch.
cdef struct IndexEntries:
    const uint8_t* next
    const uint8_t* end
    int64_t wrong

cdef struct IndexCheck:
    int64_t base_offset
    IndexEntries offsets
    IndexEntries times
    IndexEntries transactions

# A batch that the offset index names.
cdef struct IndexedBatch:
    int64_t position
    int64_t last_offset


cdef void index_check_begin(
    IndexCheck* check, int64_t base_offset, bytes index, bytes time_index, bytes aborted) noexcept
cdef void index_check_batch(
    IndexCheck* check, const BatchInfo* info, int64_t position, bint is_after_damage
) noexcept nogil
cdef void index_check_end(IndexCheck* check) noexcept nogil
cdef bint index_check_ahead(
    const IndexCheck* check, int64_t index, IndexedBatch* named) noexcept nogil
