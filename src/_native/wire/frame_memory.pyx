"""What has come in and is not served yet: frames under way, requests that wait for an earlier one.

Each connection has a `Kept`, all of them share a `FrameMemory`, which counts what they really take:
a frame that is announced and does not come costs nothing. A buffer that has been used before counts
whole, because its pages are there, whoever filled them.

As long as all that takes less than UNFINISHED_FRAMES_BYTES_MAX, nobody notices. Above it

    READS -- has HEAD_ONLY, and there is no memory for more --> WAITS, the last of its queue
      ^                                                           |
      |<-- memory is there again: first come, first served -------|
      |                                                           |
      '--- its frame is whole --- ADMITTED <-- first of its queue, nobody of it is admitted

so somebody always gets on, and requests of up to HEAD_ONLY are served as ever. What is kept stays
below that limit, HEAD_ONLY for each connection, and one frame of each queue. There are two: frames
of a usual size do not wait for long ones that stall.

Requests that wait for Python to begin them count too. While they take half of the limit nobody is
admitted: else each frame would be read, handed over and followed by the next.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from broker._native.wire.buffer_pool cimport pool_give, pool_take

from broker.model import limits

cdef enum:
    OWN_BUFFER_MIN = 32 << 10       # a longer incomplete frame gets a buffer of its own

cdef size_t ORDINARY_FRAME_BYTES_MAX = limits.ORDINARY_FRAME_BYTES_MAX
cdef int64_t RECEIVE_BYTES_PER_TURN = limits.RECEIVE_BYTES_PER_TURN


cdef bint kept_put(
        FrameMemory* memory, Kept* kept, const uint8_t* data, size_t size, size_t announced,
        bint is_same_frame, int64_t now_ms) noexcept nogil:
    """Keep these bytes, which may be a part of those kept now, instead of them.

    `announced` is the size of the frame that they begin with, 0 when that is not known. False
    without memory.
    """
    cdef size_t target = 0, capacity = 0, touched = 0
    cdef int64_t started_ms = kept.started_ms if is_same_frame else 0
    cdef uint8_t* into
    if announced > OWN_BUFFER_MIN and announced > size and (size > HEAD_ONLY or (
            size == HEAD_ONLY and memory.bytes < memory.bytes_max)):
        target = announced
    into = pool_take(&memory.pool, target if target > 0 else size, &capacity, &touched)
    if into == NULL:
        return False
    memcpy(into, data, size)
    release(memory, kept)
    if not is_same_frame:
        memory_leave(memory, kept)
    kept.data = into
    kept.capacity = capacity
    kept.target = target
    kept.announced = announced
    kept.started_ms = started_ms if started_ms > 0 else now_ms
    kept.counted = <int64_t>touched
    memory.bytes += kept.counted
    kept_grow(memory, kept, size)
    return True


cdef void kept_grow(FrameMemory* memory, Kept* kept, size_t size) noexcept nogil:
    """Note that so many bytes are in its buffer now."""
    kept.size = size
    if <int64_t>size > kept.counted:
        memory.bytes += <int64_t>size - kept.counted
        kept.counted = <int64_t>size


cdef void kept_drop(FrameMemory* memory, Kept* kept) noexcept nogil:
    """Let go of it, if there is anything."""
    if kept.data == NULL:
        return
    release(memory, kept)
    memory_leave(memory, kept)
    kept.started_ms = 0


cdef void release(FrameMemory* memory, Kept* kept) noexcept nogil:
    pool_give(&memory.pool, kept.data, kept.capacity)
    memory.bytes -= kept.counted
    kept.data = NULL
    kept.size = kept.capacity = kept.target = kept.announced = 0
    kept.counted = 0


cdef bint kept_is_slow(
        const Kept* kept, int64_t now_ms, int64_t under_way_ms_min, int64_t bytes_per_ms_min
) noexcept nogil:
    """Whether a frame has been under way for long and comes in too slowly to wait for."""
    cdef int64_t under_way_ms = now_ms - kept.started_ms
    return under_way_ms > under_way_ms_min and (
        <int64_t>kept.size < under_way_ms * bytes_per_ms_min)


cdef size_t scarce_room(const FrameMemory* memory, const Kept* kept, size_t room) noexcept nogil:
    """`memory_room`, where there may be too little."""
    cdef int64_t left = memory.bytes_max - memory.bytes
    if kept.state == KEPT_ADMITTED:
        return room
    if left < HEAD_ONLY:
        return min(room, <size_t>max(kept.counted, HEAD_ONLY))
    return min(room, <size_t>(kept.counted + left))


cdef void memory_wait(FrameMemory* memory, Kept* kept, int64_t now_ms) noexcept nogil:
    """Stand last among those that wait for memory."""
    cdef FrameQueue* queue = &memory.queues[
        QUEUE_LONG if kept.announced > ORDINARY_FRAME_BYTES_MAX else QUEUE_ORDINARY]
    kept.state = KEPT_WAITS
    kept.queue = queue
    kept.waiting_since_ms = now_ms
    kept.before = queue.last
    kept.next = NULL
    if queue.last == NULL:
        queue.first = kept
    else:
        queue.last.next = kept
    queue.last = kept
    memory.waiting += 1


cdef void memory_leave(FrameMemory* memory, Kept* kept) noexcept nogil:
    """Wait no more, or let the next one be admitted."""
    cdef FrameQueue* queue = kept.queue
    if kept.state == KEPT_READS:
        return
    if kept.state == KEPT_ADMITTED:
        queue.admitted = NULL
    else:
        if kept.before == NULL:
            queue.first = kept.next
        else:
            kept.before.next = kept.next
        if kept.next == NULL:
            queue.last = kept.before
        else:
            kept.next.before = kept.before
        kept.before = kept.next = NULL
        memory.waiting -= 1
    kept.state = KEPT_READS
    kept.queue = NULL


cdef void memory_hand_over(FrameMemory* memory, int64_t size) noexcept nogil:
    """Count a request that waits for Python; with a negative size, no more."""
    memory.bytes += size
    memory.handed_over += size


cdef Kept* memory_next(FrameMemory* memory, int64_t* room) noexcept nogil:
    """Who may read on; NULL for nobody. It is asked until then, with what room there is at first.

    That many are let on as fill the room with what their frames still lack.
    """
    cdef FrameQueue* queue
    cdef Kept* kept
    cdef int place
    for place in range(QUEUES):
        queue = &memory.queues[place]
        kept = queue.first
        if kept == NULL:
            continue
        if queue.admitted == NULL and 2 * memory.handed_over <= memory.bytes_max:
            memory_leave(memory, kept)
            kept.state = KEPT_ADMITTED
            kept.queue = queue
            queue.admitted = kept
            return kept
        if room[0] >= RECEIVE_BYTES_PER_TURN:
            memory_leave(memory, kept)
            room[0] -= max(RECEIVE_BYTES_PER_TURN, <int64_t>kept.announced - <int64_t>kept.size)
            return kept
    return NULL


cdef int64_t memory_awaited_ms(const FrameMemory* memory, int64_t now_ms) noexcept nogil:
    """How long the first of a queue has waited, the one that has waited longer; -1: nobody does."""
    cdef int64_t longest_ms = -1
    cdef int place
    for place in range(QUEUES):
        if memory.queues[place].first != NULL:
            longest_ms = max(longest_ms, now_ms - memory.queues[place].first.waiting_since_ms)
    return longest_ms
