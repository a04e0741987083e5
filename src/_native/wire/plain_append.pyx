"""The append of a dialect whose records come without a batch: one plain batch to one partition.

    plain_takes -> the batch (records/plain_batch) -> plain_append -> the reply, whole -> plain_wait

The same is asked of the log as in produce.pyx; of the batch, which is our own, less. The reply
leaves when the high watermark is at its end offset. Should the log fail before, it is the other
answer of the slot (`failed_size`).
"""

from libc.stdint cimport int64_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.turn cimport LOG_FULL, LOG_OK, AckWaiter, LogStatus
from broker._native.records.plain_batch cimport PlainBatch
from broker._native.wire.reply_slot cimport ReplySlot


cdef bint plain_takes(PartitionLog log, bint have_keys) noexcept:
    """Whether a log is one that the fast path appends to, as far as can be said without a batch."""
    if log is None or log.is_loading or log.is_offline or log.is_deleted or not log.is_plain:
        return False
    return (have_keys or not log.needs_keys) and not log.turn.refuses_clients


cdef PlainStatus plain_append(
        PartitionLog log, PlainBatch* batch, bint have_keys, int64_t* base_offset) noexcept:
    """Append a finished batch; its base offset. Where there is no room for it, Python says so."""
    cdef LogStatus status
    if not plain_takes(log, have_keys):
        return PLAIN_NOT_SERVED
    if <int64_t>batch.size > log.batch_bytes_max or <int64_t>batch.size > log.segment_bytes_max:
        return PLAIN_NOT_SERVED
    if not log.accepts_times(&batch.info):
        return PLAIN_NOT_SERVED
    status = log.append_batch(batch.data, &batch.info, base_offset)
    if status == LOG_FULL:
        return PLAIN_NOT_SERVED
    return PLAIN_DONE if status == LOG_OK else PLAIN_OFFLINE


cdef void plain_wait(PartitionLog log, ReplySlot* slot, int64_t end_offset) noexcept:
    """Hold a reply back until all below the offset is visible. The wait may end at once."""
    cdef AckWaiter* waiter = &slot.waiters[0]
    waiter.offset = end_offset
    waiter.owner = slot
    waiter.place = 0
    slot.waiting = 1
    log.wait(waiter)
