from libc.stdint cimport int64_t, uint8_t

from broker._native.wire.buffer_pool cimport BufferPool

cdef enum:
    HEAD_ONLY = 4 << 10            # of a frame: read even when there is no memory for more
    QUEUE_ORDINARY = 0             # frames as producers send them by default
    QUEUE_LONG = 1
    QUEUES = 2

cdef enum KeptState:
    KEPT_READS
    KEPT_WAITS                     # for memory, in its queue
    KEPT_ADMITTED                  # reads on, whatever memory there is: one of its queue does

cdef struct FrameQueue

cdef struct Kept:                  # of one connection
    uint8_t* data                  # the start of a frame, or requests that wait; NULL: nothing
    size_t size
    size_t capacity
    size_t target                  # size of the one long frame it will hold; 0 = not such
    size_t announced               # size of the frame it begins with; 0 = not known
    int64_t counted                # what it takes of `FrameMemory.bytes`
    int64_t started_ms             # monotonic: since when its frame is awaited; 0 = none
    KeptState state
    FrameQueue* queue              # in which it waits, or of which it is admitted
    int64_t waiting_since_ms       # monotonic
    void* owner                    # the Connection
    Kept* before
    Kept* next

cdef struct FrameQueue:
    Kept* first
    Kept* last
    Kept* admitted

cdef struct FrameMemory:           # of all connections
    BufferPool pool
    int64_t bytes                  # that everything kept takes
    int64_t bytes_max
    int64_t waiting                # in both queues
    int64_t handed_over            # of `bytes`: requests that wait for Python to begin them
    FrameQueue queues[QUEUES]


cdef bint kept_put(
    FrameMemory* memory, Kept* kept, const uint8_t* data, size_t size, size_t announced,
    bint is_same_frame, int64_t now_ms) noexcept nogil
cdef void kept_grow(FrameMemory* memory, Kept* kept, size_t size) noexcept nogil
cdef void kept_drop(FrameMemory* memory, Kept* kept) noexcept nogil
cdef bint kept_is_slow(
    const Kept* kept, int64_t now_ms, int64_t under_way_ms_min, int64_t bytes_per_ms_min
) noexcept nogil
cdef size_t scarce_room(const FrameMemory* memory, const Kept* kept, size_t room) noexcept nogil
cdef void memory_wait(FrameMemory* memory, Kept* kept, int64_t now_ms) noexcept nogil
cdef void memory_leave(FrameMemory* memory, Kept* kept) noexcept nogil
cdef void memory_hand_over(FrameMemory* memory, int64_t size) noexcept nogil
cdef Kept* memory_next(FrameMemory* memory, int64_t* room) noexcept nogil
cdef int64_t memory_awaited_ms(const FrameMemory* memory, int64_t now_ms) noexcept nogil


cdef inline size_t memory_room(
        const FrameMemory* memory, const Kept* kept, size_t room) noexcept nogil:
    """To how many bytes it may read on, `room` at most; to no more than it has: it must wait."""
    if memory.bytes + <int64_t>room - kept.counted <= memory.bytes_max:
        return room
    return scarce_room(memory, kept, room)
