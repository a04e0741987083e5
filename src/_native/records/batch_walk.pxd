from libc.stdint cimport int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.column cimport Column
from broker._native.records.record_batch cimport BatchInfo


cdef class WalkedTransactions:
    cdef list aborted            # (first offset, producer id, marker's offset), ascending
    cdef Py_ssize_t seen
    cdef dict aborting           # producer → its aborted transaction that is open here
    cdef set observed            # producers of those that had batches
    cdef list kept               # aborted ones that had batches, at their markers
    cdef set committing          # producers with records of a transaction that was not aborted

    cdef bint is_aborted(self, const BatchInfo* info) except -1
    cdef bint is_done(self, const BatchInfo* info, Cursor records) except -1
    cdef int follow(self, const BatchInfo* info) except -1


cdef class BatchWalk:
    cdef object unfold
    cdef int64_t unfolded_bytes_max
    cdef Column unfolded
    cdef WalkedTransactions transactions
    cdef const uint8_t* start    # of the bytes at hand
    cdef Cursor cursor           # what follows the batch
    cdef const uint8_t* batch    # where we are, and what its header says
    cdef BatchInfo info
    cdef int64_t next_offset     # where the next batch may begin

    cdef int set_input(self, const uint8_t* data, Py_ssize_t size) except -1
    cdef bint advance(self) except -1
    cdef Cursor records(self) except *
    cdef int unfold_records(self, int codec, Cursor* records) except -1
    cdef Py_ssize_t position(self) noexcept
