"""The bytes of a Fetch response, versions 4-18: varints, a partition's head, its records.

    partition    int32 index | int16 error | int64 high watermark | int64 last stable offset |
                 v5 int64 log start offset | aborted transactions | v11 int32 preferred replica |
                 records | tags
    aborted      null with read_uncommitted, else
                 [int64 producer id | int64 first offset | tags]
"""

from cpython.ref cimport Py_DECREF
from libc.errno cimport EIO
from libc.string cimport memset

from broker._native.kernel.big_endian cimport store_uint16, store_uint32, store_uint64
from broker._native.kernel.file_ops cimport file_pread
from broker._native.log.open_files cimport OpenFile
from broker._native.messages.fields cimport put_compact, put_tags
from broker._native.wire.output_queue cimport queue_commit, queue_file, queue_reserve

cdef enum:
    VERSION_LOG_START = 5
    VERSION_PREFERRED_REPLICA = 11
    TAG_DIVERGING_EPOCH = 0


cdef void put_padded(uint8_t* at, uint32_t value) noexcept:
    """Write a varint of exactly five bytes: its place was reserved before the value was known."""
    cdef int i
    for i in range(4):
        at[i] = <uint8_t>(value | 0x80)
        value >>= 7
    at[4] = <uint8_t>value


cdef uint8_t* put_head(uint8_t* at, PartitionHead* head, bint is_flexible) noexcept:
    """Write everything of a partition before its records."""
    store_uint32(at, head.partition)
    store_uint16(at + 4, head.error)
    store_uint64(at + 6, head.high_watermark)
    store_uint64(at + 14, head.last_stable_offset)
    at += 22
    if head.version >= VERSION_LOG_START:
        store_uint64(at, head.log_start_offset)
        at += 8
    at = put_aborted(at, head.aborted, is_flexible)
    if head.version >= VERSION_PREFERRED_REPLICA:
        store_uint32(at, <uint32_t>head.preferred_replica)
        at += 4
    if is_flexible:
        return put_compact(at, <uint32_t>head.records + 1)
    store_uint32(at, <uint32_t>head.records)
    return at + 4


cdef uint8_t* put_aborted(uint8_t* at, AbortedList* aborted, bint is_flexible) noexcept:
    # NULL with read_uncommitted: some clients would filter out the records of a list.
    cdef size_t i
    if is_flexible:
        at = put_compact(at, 0 if aborted == NULL else <uint32_t>aborted.count + 1)
    else:
        store_uint32(at, <uint32_t>-1 if aborted == NULL else <uint32_t>aborted.count)
        at += 4
    if aborted == NULL:
        return at
    for i in range(aborted.count):
        store_uint64(at, aborted.entries[i].producer_id)
        store_uint64(at + 8, aborted.entries[i].first_offset)
        at += 16
        at = put_tags(at, is_flexible)
    return at


cdef void put_records(OutputQueue* queue, PyObject* file, LogSlice* found) noexcept:
    # Takes over the reference. Short runs are copied after the head, long ones go from the page
    # cache to the socket.
    cdef uint8_t* at
    cdef ssize_t size
    if found.size > COPIED_MAX:
        queue_file(queue, file, (<OpenFile>file).fd, found.position, found.size)
        return
    at = queue_reserve(queue, <size_t>found.size)
    if at != NULL:
        size = file_pread((<OpenFile>file).fd, at, <size_t>found.size, found.position)
        if size < found.size:
            # The disk failed during the read. Zeros are sent instead, which a client that checks
            # CRCs rejects; the next request finds the log offline.
            (<OpenFile>file).error = <int>size if size < 0 else -EIO
            memset(at + (size if size > 0 else 0), 0, found.size - (size if size > 0 else 0))
        queue_commit(queue, <size_t>found.size)
    Py_DECREF(<object>file)


cdef uint8_t* put_diverging(uint8_t* at, int32_t epoch, int64_t end_offset) noexcept:
    """Write a partition's tagged fields with the end of the last common epoch (KIP-595)."""
    at[0] = 1                       # one field
    at[1] = TAG_DIVERGING_EPOCH
    at[2] = DIVERGING_SIZE - 3
    store_uint32(at + 3, epoch)
    store_uint64(at + 7, end_offset)
    return put_tags(at + 15, True)


cdef void queue_tags(OutputQueue* queue) noexcept:
    """Queue that a structure has no tagged fields."""
    cdef uint8_t* at = queue_reserve(queue, 1)
    if at != NULL:
        queue_commit(queue, put_tags(at, True) - at)
