"""Appends for protocols whose records come without a batch: one batch to one partition.

    plain_takes -> the batch (records/plain_batch) -> plain_append -> the reply, whole -> plain_wait

The batch, which the broker has built, needs fewer checks than one that a client has sent. The reply
is sent when the high watermark reaches its end offset: all replicas in sync have it (plain_wait),
or when this one has it (plain_wait_local). If the log fails before, or that takes too long, the
slot's answer for a failure is sent instead (slot_replace, unless the protocol has set its
own `fail` before).
"""

from libc.stdint cimport int64_t

from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.turn cimport (
    LOG_FULL,
    LOG_NOT_LED,
    LOG_OK,
    AckWaiter,
    LogStatus,
    may_acknowledge,
)
from broker._native.records.plain_batch cimport PlainBatch
from broker._native.wire.reply_slot cimport ReplySlot, slot_replace
from broker._native.wire.unseen_writes cimport unseen_add

from broker.model import limits

cdef int64_t REPLICAS_WAIT_MS = limits.REPLICAS_WAIT_MS


cdef bint plain_takes(PartitionLog log, bint have_keys) noexcept:
    """Return whether the native path may append to a log, as far as is known without the batch."""
    return log is not None and log.is_plain and log_takes(log) and (have_keys or not log.needs_keys)


cdef bint log_takes(PartitionLog log) noexcept:
    """Return whether a log can be appended to now, whatever its topic's settings."""
    # A log that is offline or deleted refuses the append itself (PLAIN_OFFLINE).
    if log.is_loading or log.is_follower or log.is_stopped or log.lacks_replicas:
        return False
    return not log.disk.refuses_clients and may_acknowledge(log.turn, log.broker_epoch)


cdef PlainStatus plain_append(
        PartitionLog log, PlainBatch* batch, bint have_keys, int64_t* base_offset) noexcept:
    """Append a finished batch and set its base offset.

    What another request may not find any more is left to Python: a full disk, another leader.
    """
    if not plain_takes(log, have_keys):
        return PLAIN_NOT_SERVED
    return built_append(log, batch, base_offset)


cdef PlainStatus built_append(
        PartitionLog log, PlainBatch* batch, int64_t* base_offset) noexcept:
    """Append a finished batch to a log that takes it."""
    cdef LogStatus status
    if <int64_t>batch.size > log.batch_bytes_max or <int64_t>batch.size > log.segment_bytes_max:
        return PLAIN_NOT_SERVED
    if not log.accepts_times(&batch.info):
        return PLAIN_NOT_SERVED
    status = log.append_batch(batch.data, &batch.info, base_offset)
    if status == LOG_FULL or status == LOG_NOT_LED:
        return PLAIN_NOT_SERVED
    return PLAIN_DONE if status == LOG_OK else PLAIN_OFFLINE


cdef void plain_wait(PartitionLog log, ReplySlot* slot, int64_t end_offset) noexcept:
    """Delay a reply until everything below the offset is visible. The wait may end at once.

    The slot has an answer for a failure: that of its `fail`, or one for `slot_replace`.
    """
    cdef AckWaiter* waiter = begin_wait(slot, end_offset)
    waiter.due_ms = log.turn.steady_ms + REPLICAS_WAIT_MS
    log.wait(waiter)


cdef void plain_wait_local(
        PartitionLog log, ReplySlot* slot, int64_t end_offset, UnseenWrites* unseen) noexcept:
    """Delay a reply likewise until this replica has everything below the offset.

    That others do not have it is noted, for reads of the connection; without memory it is not.
    """
    if log.is_replicated:
        unseen_add(unseen, log, end_offset)
    log.wait_local(begin_wait(slot, end_offset))


cdef AckWaiter* begin_wait(ReplySlot* slot, int64_t end_offset) noexcept:
    cdef AckWaiter* waiter = &slot.waiters[0]
    waiter.offset = end_offset
    waiter.due_ms = 0
    waiter.owner = slot
    waiter.place = 0
    slot.waiting = 1
    if slot.fail == NULL:
        slot.fail = slot_replace
    return waiter
