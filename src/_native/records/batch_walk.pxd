from libc.stdint cimport int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.column cimport Column
from broker._native.records.record_batch cimport BatchInfo


cdef class WalkedTransactions:
    cdef list aborted            # (first offset, producer id, marker's offset), ascending
    cdef Py_ssize_t seen
    cdef dict aborting           # producer → its aborted transaction that is open at this batch
    cdef set observed            # producers whose aborted transaction had batches
    cdef list kept               # aborted transactions that had batches, added at their markers
    cdef set committing          # producers with records of a transaction that was not aborted

    cdef bint is_aborted(self, const BatchInfo* info) except -1
    cdef bint is_done(self, const BatchInfo* info, Cursor records) except -1
    cdef int follow(self, const BatchInfo* info) except -1


cdef class BatchWalk:
    cdef object decompress
    cdef int64_t decompressed_bytes_max
    cdef Column decompressed
    cdef WalkedTransactions transactions
    cdef const uint8_t* start    # of the input
    cdef Cursor cursor           # the bytes after the batch
    cdef const uint8_t* batch    # the current batch, and its header
    cdef BatchInfo info
    cdef int64_t next_offset     # the lowest valid base offset of the next batch

    cdef int set_input(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef bint advance(self) except -1
    cdef Cursor records(self) except *
    cdef int decompress_records(self, int codec, Cursor* records) except -1
    cdef Py_ssize_t position(self) noexcept
