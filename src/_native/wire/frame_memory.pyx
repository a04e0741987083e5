"""What has come in and is not served yet: frames under way, requests that wait for an earlier one.

Each connection has a `Kept`, all of them share a `FrameMemory`, which counts what they really take:
a frame that is announced and does not come costs nothing. A buffer that has been used before counts
whole, because its pages are there, whoever filled them.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from broker._native.wire.buffer_pool cimport pool_give, pool_take

cdef enum:
    OWN_BUFFER_MIN = 32 << 10       # a longer incomplete frame gets a buffer of its own


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
    if announced > OWN_BUFFER_MIN and announced > size and size >= HEAD_ONLY:
        target = announced
    into = pool_take(&memory.pool, target if target > 0 else size, &capacity, &touched)
    if into == NULL:
        return False
    memcpy(into, data, size)
    kept_drop(memory, kept)
    kept.data = into
    kept.capacity = capacity
    kept.target = target
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
    pool_give(&memory.pool, kept.data, kept.capacity)
    memory.bytes -= kept.counted
    kept.data = NULL
    kept.size = kept.capacity = kept.target = 0
    kept.counted = kept.started_ms = 0


cdef bint kept_is_slow(
        const Kept* kept, int64_t now_ms, int64_t under_way_ms_min, int64_t bytes_per_ms_min
) noexcept nogil:
    """Whether a frame has been under way for long and comes in too slowly to wait for."""
    cdef int64_t under_way_ms = now_ms - kept.started_ms
    return under_way_ms > under_way_ms_min and (
        <int64_t>kept.size < under_way_ms * bytes_per_ms_min)
