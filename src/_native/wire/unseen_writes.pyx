"""Writes of a connection whose answers do not wait until they are visible.

    acks=0                                             here
    acks=0 and acks=1, of a log with other replicas    elsewhere

Another write has a reply slot that waits until it is visible. These are only noted, one entry per
partition: the native path allocates nothing and links nothing into the log. When a request comes
that must see the writes, `unseen_slot` makes a slot without a reply, and `unseen_wait` has it wait
for all of them. Reads wait for both lists, other requests only for the first: who does not wait for
other brokers should not wait for them with the next request either.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int64_t, uint32_t
from libc.stdlib cimport free, realloc

from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.turn cimport AckWaiter
from broker._native.wire.reply_slot cimport ReplySlot, slot_new

from broker.model import limits

cdef enum:
    CAPACITY_MIN = 8

cdef uint32_t PARTITIONS_MAX = limits.UNSEEN_PARTITIONS_PER_CONNECTION_MAX


cdef bint unseen_add(UnseenWrites* writes, PartitionLog log, int64_t end_offset) noexcept:
    """Note a write up to an offset, exclusive; return False without memory."""
    if not log.is_replicated:
        return list_add(&writes.here, log, end_offset)
    if writes.elsewhere.count >= PARTITIONS_MAX:
        unseen_prune(&writes.elsewhere)
    # With more partitions whose replicas are late, a read does not wait for the rest of them.
    return writes.elsewhere.count >= PARTITIONS_MAX or list_add(
        &writes.elsewhere, log, end_offset)


cdef bint list_add(UnseenList* writes, PartitionLog log, int64_t end_offset) noexcept:
    cdef uint32_t i, at
    # A producer writes to its partitions in a similar order each time. One request may name more
    # than a look through them is worth: then a partition may have several entries.
    cdef uint32_t looked_at = writes.count if writes.count < PARTITIONS_MAX else 0
    for i in range(looked_at):
        at = writes.hint + i
        if at >= writes.count:
            at -= writes.count
        if writes.entries[at].log == <PyObject*>log:
            writes.entries[at].end_offset = max(writes.entries[at].end_offset, end_offset)
            writes.hint = at + 1 if at + 1 < writes.count else 0
            return True
    if writes.count == writes.capacity:
        unseen_prune(writes)
        if not reserve_entry(writes):
            return False
    writes.entries[writes.count].log = <PyObject*>log
    writes.entries[writes.count].end_offset = end_offset
    Py_INCREF(log)
    writes.count += 1
    writes.hint = 0
    return True


cdef bint reserve_entry(UnseenList* writes) noexcept:
    # At least half is left free, so that not every write has to prune the entries.
    cdef uint32_t capacity = max(<uint32_t>CAPACITY_MIN, 2 * writes.capacity)
    cdef void* larger
    if 2 * writes.count < writes.capacity:
        return True
    larger = realloc(writes.entries, capacity * sizeof(UnseenWrite))
    if larger == NULL:
        return False
    writes.entries = <UnseenWrite*>larger
    writes.capacity = capacity
    return True


cdef void unseen_prune(UnseenList* writes) noexcept:
    """Remove the writes that are visible, or never will be."""
    cdef uint32_t i, left = 0
    cdef PartitionLog log
    cdef UnseenWrite each
    for i in range(writes.count):
        each = writes.entries[i]
        log = <PartitionLog>each.log
        if log.high_watermark >= each.end_offset or log.is_offline or log.is_deleted:
            Py_DECREF(log)
            continue
        writes.entries[left] = each
        left += 1
    writes.count = left
    writes.hint = 0


cdef ReplySlot* unseen_slot(UnseenList* writes) noexcept:
    """Return a slot that sends nothing, with a waiter per write; NULL without memory."""
    cdef ReplySlot* slot = slot_new(0, <int>writes.count)
    if slot != NULL:
        slot.waiting = <int>writes.count
    return slot


cdef void unseen_wait(UnseenList* writes, ReplySlot* slot, int64_t wait_ms) noexcept:
    """Have a queued slot wait for all writes, of other brokers for a time, and remove them."""
    cdef uint32_t i
    cdef AckWaiter* waiter
    cdef PartitionLog log
    for i in range(writes.count):
        log = <PartitionLog>writes.entries[i].log
        waiter = &slot.waiters[i]
        waiter.offset = writes.entries[i].end_offset
        waiter.due_ms = log.turn.steady_ms + wait_ms
        waiter.owner = slot
        waiter.place = 0
        log.wait(waiter)
        Py_DECREF(log)
    writes.count = writes.hint = 0


cdef void unseen_free(UnseenWrites* writes) noexcept:
    list_free(&writes.here)
    list_free(&writes.elsewhere)


cdef void list_free(UnseenList* writes) noexcept:
    cdef uint32_t i
    for i in range(writes.count):
        Py_DECREF(<object>writes.entries[i].log)
    free(writes.entries)
    writes.entries = NULL
    writes.count = writes.capacity = writes.hint = 0
