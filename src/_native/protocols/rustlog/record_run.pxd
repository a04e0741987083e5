from libc.stdint cimport uint32_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.records.plain_batch cimport PlainBatch

# The result of checking a run of records, or of adding records from it.
cdef enum RunStatus:
    RUN_DONE = 0
    RUN_NO_LENGTH          # cut short before or within the length of a record
    RUN_NO_RECORD          # cut short within a record
    RUN_BATCH_FULL         # the next record goes into the next batch


cdef RunStatus run_add(Cursor* run, uint32_t* left, PlainBatch* batch, size_t size_max,
                       uint32_t records_max) noexcept nogil
