from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from broker._native.log.turn cimport AckWaiter, LogStatus
from broker._native.wire.request_meter cimport RequestMeter

cdef enum:
    SLOT_INLINE_SIZE = 160    # fits the reply to a write to one partition

cdef struct ReplySlot

# Changes a reply, which is not true once the log of one of its waiters has failed. `place` is that
# of the AckWaiter.
ctypedef void (*SlotFail)(ReplySlot* slot, uint32_t place, LogStatus status) noexcept nogil

# The place of one reply in the order of its connection. A reply is written when its request is
# served, and sent once everything it waits for has happened and all earlier replies have been sent.
cdef struct ReplySlot:
    ReplySlot* next
    void* connection          # borrowed; NULL once the connection is closed
    int32_t waiting           # acknowledgements (or a Python answer) still to come
    int32_t acks              # elements of `waiters` whose failure changes the reply
    bint is_closing           # the connection is closed after it, or instead of it if empty
    bint is_droppable         # not sent while the peer does not read earlier replies
    bint needs_lease          # made while the broker might acknowledge: not sent afterwards
    int64_t broker_epoch      # Turn.broker_epoch when it was queued, or when Python answered
    RequestMeter* meter       # counts its request, or NULL
    bint is_timed             # whether its waiting time is counted already
    int64_t read_us           # with a meter: when the request was read
    int64_t begun_ns          # when its request began, if its latency is recorded, or 0
    uint32_t size
    # Set by its protocol if it waits for a log. NULL: no failure of a log makes the reply wrong.
    SlotFail fail
    # For slot_replace, the answer for a failure. failed_end NULL: it follows this reply in `data`;
    # otherwise it begins as this reply does, and from failed_start on has the bytes of failed_end,
    # which the protocol owns and which fit. Another `fail` may use them for what it needs.
    uint32_t failed_size
    const uint8_t* failed_end
    uint32_t failed_start
    uint32_t capacity
    uint8_t* data             # `inline_data` or malloc'd
    AckWaiter* waiters        # `one` or malloc'd, an element per partition
    AckWaiter one
    uint8_t inline_data[SLOT_INLINE_SIZE]


cdef ReplySlot* slot_new(uint32_t capacity, int32_t waiters) noexcept nogil
cdef void slot_replace(ReplySlot* slot, uint32_t place, LogStatus status) noexcept nogil
cdef void slot_free(ReplySlot* slot) noexcept nogil


cdef inline int64_t slot_cost(const ReplySlot* slot) noexcept nogil:
    """Return the bytes of memory that a slot takes."""
    return <int64_t>sizeof(ReplySlot) + (
        <int64_t>slot.capacity if slot.data != slot.inline_data else 0)
