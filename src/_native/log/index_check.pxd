"""Compares the three indexes of a segment with its batches while the batches are read.

    begin -> batch, once for every valid one, ascending -> end

Every entry of .index and .timeindex (offset_index) and of .txnindex (transaction_index) must match
a batch: it is compared with the first batch that reaches its offset. An entry that matches no batch
is wrong, unless it points into damaged bytes.

The caller has read the files into memory and owns that memory.

Header only: only segment_check uses it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t

from broker._native.kernel.cursor cimport load_int32, load_int64
from broker._native.log.offset_index cimport OFFSET_ENTRY_SIZE, TIME_ENTRY_SIZE
from broker._native.log.transaction_index cimport (
    ENTRY_SIZE as ABORTED_ENTRY_SIZE,
    FIRST_OFFSET as ABORTED_FIRST_OFFSET,
    LAST_OFFSET as ABORTED_LAST_OFFSET,
    PRODUCER_ID as ABORTED_PRODUCER_ID,
)
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CONTROL,
    BatchInfo,
    batch_last_offset,
)

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


cdef inline void take_entries(IndexEntries* entries, bytes data, int entry_size) noexcept:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data)
    entries.next = <const uint8_t*>PyBytes_AS_STRING(data)
    entries.end = entries.next + size // entry_size * entry_size
    entries.wrong = size % entry_size != 0


cdef inline void index_check_begin(
        IndexCheck* check, int64_t base_offset, bytes index, bytes time_index, bytes aborted
) noexcept:
    """Set the contents of the three files, b"" for no file; the caller keeps the bytes alive."""
    check.base_offset = base_offset
    take_entries(&check.offsets, index, OFFSET_ENTRY_SIZE)
    take_entries(&check.times, time_index, TIME_ENTRY_SIZE)
    take_entries(&check.transactions, aborted, ABORTED_ENTRY_SIZE)


cdef inline int64_t position_of(const uint8_t* entry) noexcept nogil:
    return <uint32_t>load_int32(entry + 4)


cdef inline void index_check_batch(
        IndexCheck* check, const BatchInfo* info, int64_t position, bint is_after_damage
) noexcept nogil:
    """Compare the entries up to a valid batch with it; entries of damaged bytes are skipped."""
    cdef int64_t base = info.base_offset, last = batch_last_offset(info), offset
    cdef bint is_known = not is_after_damage
    cdef IndexEntries* entries = &check.offsets
    while entries.next < entries.end and position_of(entries.next) <= position:
        if position_of(entries.next) == position:
            entries.wrong += check.base_offset + load_int32(entries.next) != last
        else:
            entries.wrong += is_known
        entries.next += OFFSET_ENTRY_SIZE
    entries = &check.times
    while entries.next < entries.end:
        offset = check.base_offset + load_int32(entries.next + 8)
        if offset > last:
            break
        if offset >= base:
            entries.wrong += load_int64(entries.next) != info.max_timestamp
        else:
            entries.wrong += is_known
        entries.next += TIME_ENTRY_SIZE
    entries = &check.transactions
    while entries.next < entries.end:
        offset = load_int64(entries.next + ABORTED_LAST_OFFSET)
        if offset > last:
            break
        if offset >= base:
            entries.wrong += not (
                info.attributes & ATTRIBUTE_CONTROL and offset == last
                and load_int64(entries.next + ABORTED_PRODUCER_ID) == info.producer_id
                and load_int64(entries.next + ABORTED_FIRST_OFFSET) <= last)
        else:
            entries.wrong += is_known
        entries.next += ABORTED_ENTRY_SIZE


cdef inline bint is_zero(const uint8_t* data, int size) noexcept nogil:
    cdef int i
    for i in range(size):
        if data[i] != 0:
            return False
    return True


cdef inline void count_rest(IndexEntries* entries, int entry_size) noexcept nogil:
    while entries.next < entries.end:
        entries.wrong += not is_zero(entries.next, entry_size)
        entries.next += entry_size


cdef inline void index_check_end(IndexCheck* check) noexcept nogil:
    """Count the entries after the last batch as wrong, but for preallocated zeros.

    For a segment that is no longer written.
    """
    count_rest(&check.offsets, OFFSET_ENTRY_SIZE)
    count_rest(&check.times, TIME_ENTRY_SIZE)
    count_rest(&check.transactions, ABORTED_ENTRY_SIZE)


cdef inline bint index_check_ahead(
        const IndexCheck* check, int64_t index, IndexedBatch* named) noexcept nogil:
    """Return the `index`-th offset entry that was not compared yet; False when there is none."""
    cdef const uint8_t* entry = check.offsets.next + index * OFFSET_ENTRY_SIZE
    if entry >= check.offsets.end:
        return False
    named.position = position_of(entry)
    named.last_offset = check.base_offset + load_int32(entry)
    return True
