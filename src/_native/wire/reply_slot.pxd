from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from broker._native.log.turn cimport AckWaiter

cdef enum:
    SLOT_INLINE_SIZE = 160    # a produce reply for one partition of a topic with a usual name

# The place of one reply in its connection's order. Replies are built when the request is served and
# leave when everything they wait for has happened and all earlier ones have left.
cdef struct ReplySlot:
    ReplySlot* next
    void* connection          # borrowed; NULL once the connection is closed
    int32_t waiting           # acknowledgements (or a Python answer) still to come
    bint is_closing           # the connection is closed behind it, or instead when it is empty
    bint is_droppable         # not sent while the peer does not read what came before
    bint is_failed            # it is the other answer already
    int16_t storage_error     # what its version of Kafka's protocol calls the failure of a log
    int64_t begun_ns          # 0, or since when its dialect wants to know how long it took
    bint has_log_start        # its partitions say where their logs start, 18 bytes behind the error
    uint32_t size
    uint32_t failed_size      # of another reply behind this one, for when a wait fails; 0: patched
    const uint8_t* failed_end  # or what it ends with, its dialect's; it begins as this one does,
    uint32_t failed_start     # and so far. There is room for it
    uint32_t capacity
    uint8_t* data             # `inline_data` or malloc'd
    AckWaiter* waiters        # `one` or malloc'd, an element per partition
    AckWaiter one
    uint8_t inline_data[SLOT_INLINE_SIZE]


cdef ReplySlot* slot_new(uint32_t capacity, int32_t waiters) noexcept nogil
cdef void slot_fail(ReplySlot* slot) noexcept nogil
cdef void slot_free(ReplySlot* slot) noexcept nogil


cdef inline int64_t slot_cost(const ReplySlot* slot) noexcept nogil:
    """Bytes of memory that it takes."""
    return <int64_t>sizeof(ReplySlot) + (
        <int64_t>slot.capacity if slot.data != slot.inline_data else 0)
