"""Memory of received bytes that are not served yet: incomplete frames, and delayed requests.

Each connection has an `InputBuffer`. All share a `FrameMemory`, which counts the memory they really
use: a frame that is announced but does not arrive costs nothing. A reused buffer counts whole,
because its pages are there, whoever filled them.

Below UNFINISHED_FRAMES_BYTES_MAX in total, connections read without waiting. Above it

    READING -- has HEAD_ONLY, and there is no memory for more --> WAITING, the last of its queue
      ^                                                              |
      |<-- memory is free again: first come, first served -----------|
      |                                                              |
      '--- its frame is complete --- ADMITTED <-- first of its queue, and none of it is admitted

So one connection of each queue always makes progress, and requests of up to HEAD_ONLY are always
served. The memory in use stays below that limit, plus HEAD_ONLY per connection, plus one frame per
queue. There are two queues: frames of ordinary size do not wait for long ones that stall.

Requests that wait for Python count too. While they take half of the limit, no connection is
admitted: otherwise each frame would be read, handed over and followed by the next.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from broker._native.wire.buffer_pool cimport pool_give, pool_take

from broker.model import limits

cdef enum:
    OWN_BUFFER_MIN = 32 << 10       # a longer incomplete frame gets a buffer of its own

cdef size_t ORDINARY_FRAME_BYTES_MAX = limits.ORDINARY_FRAME_BYTES_MAX
cdef int64_t RECEIVE_BYTES_PER_TURN = limits.RECEIVE_BYTES_PER_TURN


cdef bint input_put(
        FrameMemory* memory, InputBuffer* buffer, const uint8_t* data, size_t size,
        size_t announced, bint is_same_frame, int64_t now_ms) noexcept nogil:
    """Replace the contents of a buffer by these bytes, which may be a part of them.

    `announced` is the size of the frame that they begin with, 0 if it is not known. Return False
    without memory.
    """
    cdef size_t target = 0, capacity = 0, touched = 0
    cdef int64_t started_ms = buffer.started_ms if is_same_frame else 0
    cdef uint8_t* into
    if announced > OWN_BUFFER_MIN and announced > size and (size > HEAD_ONLY or (
            size == HEAD_ONLY and memory.bytes < memory.bytes_max)):
        target = announced
    into = pool_take(&memory.pool, target if target > 0 else size, &capacity, &touched)
    if into == NULL:
        return False
    memcpy(into, data, size)
    release(memory, buffer)
    if not is_same_frame:
        memory_dequeue(memory, buffer)
    buffer.data = into
    buffer.capacity = capacity
    buffer.target = target
    buffer.announced = announced
    buffer.started_ms = started_ms if started_ms > 0 else now_ms
    buffer.counted = <int64_t>touched
    memory.bytes += buffer.counted
    input_grow(memory, buffer, size)
    return True


cdef void input_grow(FrameMemory* memory, InputBuffer* buffer, size_t size) noexcept nogil:
    """Note that `size` bytes are in its buffer now."""
    buffer.size = size
    if <int64_t>size > buffer.counted:
        memory.bytes += <int64_t>size - buffer.counted
        buffer.counted = <int64_t>size


cdef void input_drop(FrameMemory* memory, InputBuffer* buffer) noexcept nogil:
    """Release its buffer, if it has one."""
    if buffer.data == NULL:
        return
    release(memory, buffer)
    memory_dequeue(memory, buffer)
    buffer.started_ms = 0


cdef void release(FrameMemory* memory, InputBuffer* buffer) noexcept nogil:
    pool_give(&memory.pool, buffer.data, buffer.capacity)
    memory.bytes -= buffer.counted
    buffer.data = NULL
    buffer.size = buffer.capacity = buffer.target = buffer.announced = 0
    buffer.counted = 0


cdef bint input_is_slow(
        const InputBuffer* buffer, int64_t now_ms, int64_t under_way_ms_min,
        int64_t bytes_per_ms_min) noexcept nogil:
    """Return whether its frame has been arriving for long, and too slowly to wait for."""
    cdef int64_t under_way_ms = now_ms - buffer.started_ms
    return under_way_ms > under_way_ms_min and (
        <int64_t>buffer.size < under_way_ms * bytes_per_ms_min)


cdef size_t scarce_budget(
        const FrameMemory* memory, const InputBuffer* buffer, size_t budget) noexcept nogil:
    """Return `memory_budget` when memory may be scarce."""
    cdef int64_t left = memory.bytes_max - memory.bytes
    if buffer.state == INPUT_ADMITTED:
        # Its frame only: what follows would stay behind, for one connection after another.
        return min(budget, max(buffer.announced, buffer.size + HEAD_ONLY))
    if left < HEAD_ONLY:
        return min(budget, <size_t>max(buffer.counted, HEAD_ONLY))
    return min(budget, <size_t>(buffer.counted + left))


cdef void memory_enqueue(FrameMemory* memory, InputBuffer* buffer, int64_t now_ms) noexcept nogil:
    """Append a connection to the queue of those that wait for memory."""
    cdef FrameQueue* queue = &memory.queues[
        QUEUE_LONG if buffer.announced > ORDINARY_FRAME_BYTES_MAX else QUEUE_ORDINARY]
    buffer.state = INPUT_WAITING
    buffer.queue = queue
    buffer.waiting_since_ms = now_ms
    buffer.previous = queue.last
    buffer.next = NULL
    if queue.last == NULL:
        queue.first = buffer
    else:
        queue.last.next = buffer
    queue.last = buffer
    memory.waiting += 1


cdef void memory_dequeue(FrameMemory* memory, InputBuffer* buffer) noexcept nogil:
    """Stop waiting, or let the next one of the queue be admitted."""
    cdef FrameQueue* queue = buffer.queue
    if buffer.state == INPUT_READING:
        return
    if buffer.state == INPUT_ADMITTED:
        queue.admitted = NULL
    else:
        if buffer.previous == NULL:
            queue.first = buffer.next
        else:
            buffer.previous.next = buffer.next
        if buffer.next == NULL:
            queue.last = buffer.previous
        else:
            buffer.next.previous = buffer.previous
        buffer.previous = buffer.next = NULL
        memory.waiting -= 1
    buffer.state = INPUT_READING
    buffer.queue = NULL


cdef void memory_hand_over(FrameMemory* memory, int64_t size) noexcept nogil:
    """Count a request that waits for Python; a negative size ends that."""
    memory.bytes += size
    memory.handed_over += size


cdef InputBuffer* memory_admit_next(FrameMemory* memory, int64_t* budget) noexcept nogil:
    """Return the next connection that may read, or NULL; to be called until it returns NULL.

    `budget` is the free memory at first. Each call subtracts what the returned frame still lacks.
    """
    cdef FrameQueue* queue
    cdef InputBuffer* buffer
    cdef int place
    for place in range(QUEUES):
        queue = &memory.queues[place]
        buffer = queue.first
        if buffer == NULL:
            continue
        if queue.admitted == NULL and 2 * memory.handed_over <= memory.bytes_max:
            memory_dequeue(memory, buffer)
            buffer.state = INPUT_ADMITTED
            buffer.queue = queue
            queue.admitted = buffer
            return buffer
        if budget[0] >= RECEIVE_BYTES_PER_TURN:
            memory_dequeue(memory, buffer)
            budget[0] -= max(
                RECEIVE_BYTES_PER_TURN, <int64_t>buffer.announced - <int64_t>buffer.size)
            return buffer
    return NULL


cdef int64_t memory_wait_ms(const FrameMemory* memory, int64_t now_ms) noexcept nogil:
    """Return how long the first of a queue has waited, the longer one of two; -1: none waits."""
    cdef int64_t longest_ms = -1
    cdef int place
    for place in range(QUEUES):
        if memory.queues[place].first != NULL:
            longest_ms = max(longest_ms, now_ms - memory.queues[place].first.waiting_since_ms)
    return longest_ms
