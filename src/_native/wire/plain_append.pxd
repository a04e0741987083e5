from libc.stdint cimport int64_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.records.plain_batch cimport PlainBatch
from broker._native.wire.reply_slot cimport ReplySlot
from broker._native.wire.unseen_writes cimport UnseenWrites

cdef enum PlainStatus:
    PLAIN_DONE
    PLAIN_NOT_SERVED      # nothing was changed: the Python handler serves the whole request
    PLAIN_OFFLINE         # the log is offline, maybe since this append


cdef bint plain_takes(PartitionLog log, bint have_keys) noexcept
cdef bint log_takes(PartitionLog log) noexcept
cdef PlainStatus built_append(PartitionLog log, PlainBatch* batch, int64_t* base_offset) noexcept
cdef PlainStatus plain_append(
    PartitionLog log, PlainBatch* batch, bint have_keys, int64_t* base_offset) noexcept
cdef void plain_wait(PartitionLog log, ReplySlot* slot, int64_t end_offset) noexcept
cdef void plain_wait_local(
    PartitionLog log, ReplySlot* slot, int64_t end_offset, UnseenWrites* unseen) noexcept
