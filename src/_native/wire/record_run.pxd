from libc.stdint cimport uint32_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.plain_batch cimport PlainBatch

# What is wrong with a run, and what adding from it has come to.
cdef enum RunStatus:
    RUN_DONE = 0
    RUN_NO_LENGTH          # its bytes end where a record's length should stand
    RUN_NO_RECORD          # they end within a record
    RUN_BATCH_FULL         # the next record goes into the next batch


cdef RunStatus run_check(Cursor run, uint32_t count) noexcept nogil
cdef RunStatus run_add(Cursor* run, uint32_t* left, PlainBatch* batch, size_t size_max,
                       uint32_t records_max) noexcept nogil
