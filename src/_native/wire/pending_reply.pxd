from libc.stdint cimport int64_t, uint8_t, uint32_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.wire.connection cimport Connection
from broker._native.wire.reply_slot cimport ReplySlot

cdef enum:
    FRAMES_ARE_BARE = 1      # of Connection.protocol_flags, for gates: frames have no header

# What precedes the body of an answer: nothing, or the length of the frame and up to five bytes
# more.
cdef struct ReplyHead:
    uint32_t size
    uint8_t data[9]


cdef class PendingReply:
    cdef ReplySlot* slot
    cdef ReplyHead head
    cdef readonly Connection connection
    cdef readonly object protocol
    cdef readonly int operation           # of the request's header, and 0 if it has none
    cdef readonly int version
    cdef readonly object client_id
    cdef readonly bytes body              # None once it has been taken
    cdef bint has_waited                  # before its answer
    cdef int64_t handled_us               # when Python has begun with it, or what followed
    cdef int64_t counted                  # bytes of the body in FrameMemory, while it waits

    cdef int must_be_unanswered(self) except -1
    cdef void release_memory(self) noexcept
    cdef void note_times(self) noexcept
    cdef void finish(self, bint is_busy) except *


cdef PendingReply hand_over(Connection connection, Cursor body)
