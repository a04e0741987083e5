from libc.stdint cimport int64_t, uint8_t

from broker._native.wire.buffer_pool cimport BufferPool

cdef enum:
    HEAD_ONLY = 4 << 10            # of a frame: read even without memory for more
    QUEUE_ORDINARY = 0             # frames of sizes that producers send by default
    QUEUE_LONG = 1
    QUEUES = 2

cdef enum InputState:
    INPUT_READING
    INPUT_WAITING                  # for memory, in its queue
    INPUT_ADMITTED                 # reads regardless of memory: one per queue

cdef struct FrameQueue

cdef struct InputBuffer:           # of one connection
    uint8_t* data                  # the start of a frame, or delayed requests; NULL: nothing
    size_t size
    size_t capacity
    size_t target                  # size of the one long frame it will hold; 0: none
    size_t announced               # size of its first frame; 0: not known
    int64_t counted                # bytes of it in `FrameMemory.bytes`
    int64_t started_ms             # monotonic: when its frame began to arrive; 0: none
    InputState state
    FrameQueue* queue              # in which it waits, or by which it was admitted
    int64_t waiting_since_ms       # monotonic
    void* owner                    # the Connection
    InputBuffer* previous
    InputBuffer* next

cdef struct FrameQueue:
    InputBuffer* first
    InputBuffer* last
    InputBuffer* admitted

cdef struct FrameMemory:           # of all connections
    BufferPool pool
    int64_t bytes                  # of all buffers and of handed-over requests
    int64_t bytes_max
    int64_t waiting                # connections in both queues
    int64_t handed_over            # part of `bytes`: requests that Python has not begun
    FrameQueue queues[QUEUES]


cdef bint input_put(
    FrameMemory* memory, InputBuffer* buffer, const uint8_t* data, size_t size, size_t announced,
    bint is_same_frame, int64_t now_ms) noexcept nogil
cdef void input_grow(FrameMemory* memory, InputBuffer* buffer, size_t size) noexcept nogil
cdef void input_drop(FrameMemory* memory, InputBuffer* buffer) noexcept nogil
cdef bint input_is_slow(
    const InputBuffer* buffer, int64_t now_ms, int64_t under_way_ms_min, int64_t bytes_per_ms_min
) noexcept nogil
cdef size_t scarce_budget(
    const FrameMemory* memory, const InputBuffer* buffer, size_t budget) noexcept nogil
cdef void memory_enqueue(FrameMemory* memory, InputBuffer* buffer, int64_t now_ms) noexcept nogil
cdef void memory_dequeue(FrameMemory* memory, InputBuffer* buffer) noexcept nogil
cdef void memory_hand_over(FrameMemory* memory, int64_t size) noexcept nogil
cdef InputBuffer* memory_admit_next(FrameMemory* memory, int64_t* budget) noexcept nogil
cdef int64_t memory_wait_ms(const FrameMemory* memory, int64_t now_ms) noexcept nogil


cdef inline size_t memory_budget(
        const FrameMemory* memory, const InputBuffer* buffer, size_t budget) noexcept nogil:
    """Return to what size, at most `budget`, a buffer may grow; if not above its size: wait."""
    if memory.bytes + <int64_t>budget - buffer.counted <= memory.bytes_max:
        return budget
    return scarce_budget(memory, buffer, budget)
