"""Slots that keep replies in order; see reply_slot.pxd. Freed slots are reused."""

from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memmove

from broker._native.log.turn cimport AckWaiter, LogStatus

from broker.model import limits

cdef int REPLY_SLOTS_KEPT_MAX = limits.REPLY_SLOTS_KEPT_MAX
cdef ReplySlot* free_slots = NULL
cdef int free_count = 0


cdef ReplySlot* slot_new(uint32_t capacity, int32_t waiters) noexcept nogil:
    """Return a slot for a reply of this capacity and as many waiters; NULL without memory."""
    global free_slots, free_count
    cdef ReplySlot* slot = free_slots
    if slot != NULL:
        free_slots = slot.next
        free_count -= 1
    else:
        slot = <ReplySlot*>malloc(sizeof(ReplySlot))
        if slot == NULL:
            return NULL
    slot.next = NULL
    slot.connection = NULL
    slot.waiting = slot.acks = 0
    slot.is_closing = slot.is_droppable = slot.needs_lease = False
    slot.fail = NULL
    slot.meter = NULL
    slot.is_timed = False
    slot.size = slot.failed_size = slot.failed_start = 0
    slot.failed_end = NULL
    slot.begun_ns = slot.broker_epoch = 0
    slot.data = slot.inline_data
    slot.capacity = SLOT_INLINE_SIZE
    slot.one.due_ms = 0
    slot.waiters = &slot.one
    if waiters > 1:
        slot.waiters = <AckWaiter*>calloc(waiters, sizeof(AckWaiter))
        if slot.waiters == NULL:
            slot.waiters = &slot.one
            slot_free(slot)
            return NULL
    if capacity > SLOT_INLINE_SIZE:
        slot.data = <uint8_t*>malloc(capacity)
        if slot.data == NULL:
            slot.data = slot.inline_data
            slot_free(slot)
            return NULL
        slot.capacity = capacity
    return slot


cdef void slot_replace(ReplySlot* slot, uint32_t place, LogStatus status) noexcept nogil:
    """Replace the whole reply, once, by its answer for a failure: a SlotFail."""
    if slot.failed_end != NULL:
        memcpy(slot.data + slot.failed_start, slot.failed_end, slot.failed_size)
    else:
        memmove(slot.data, slot.data + slot.size, slot.failed_size)
    slot.size = slot.failed_start + slot.failed_size
    slot.fail = NULL


cdef void slot_free(ReplySlot* slot) noexcept nogil:
    global free_slots, free_count
    if slot.data != slot.inline_data:
        free(slot.data)
    if slot.waiters != &slot.one:
        free(slot.waiters)
    if free_count >= REPLY_SLOTS_KEPT_MAX:
        free(slot)
        return
    slot.next = free_slots
    free_slots = slot
    free_count += 1
