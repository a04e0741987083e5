from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from broker._native.log.turn cimport AckWaiter

cdef enum:
    SLOT_INLINE_SIZE = 160    # a produce reply for one partition of a topic with a usual name

# The place of one reply in its connection's order. Replies are built when the request is served and
# leave when everything they wait for has happened and all earlier ones have left.
cdef struct ReplySlot:
    ReplySlot* next
    void* connection          # borrowed; NULL once the connection is closed
    int32_t waiting           # acknowledgements (or a Python answer) still to come
    bint is_closing           # the connection is closed instead of answered
    bint has_log_start        # its partitions say where their logs start, 18 bytes behind the error
    uint32_t size
    uint32_t capacity
    uint8_t* data             # `inline_data` or malloc'd
    AckWaiter* waiters        # `one` or malloc'd, an element per partition
    AckWaiter one
    uint8_t inline_data[SLOT_INLINE_SIZE]


cdef ReplySlot* slot_new(uint32_t capacity, int32_t waiters) noexcept nogil
cdef void slot_free(ReplySlot* slot) noexcept nogil
