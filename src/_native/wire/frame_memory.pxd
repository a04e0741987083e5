from libc.stdint cimport int64_t, uint8_t

from broker._native.wire.buffer_pool cimport BufferPool

cdef enum:
    HEAD_ONLY = 4 << 10            # of a frame: read before it gets a buffer of its own


cdef struct FrameMemory:           # of all connections
    BufferPool pool
    int64_t bytes                  # that everything kept takes


cdef struct Kept:                  # of one connection
    uint8_t* data                  # the start of a frame, or requests that wait; NULL: nothing
    size_t size
    size_t capacity
    size_t target                  # size of the one long frame it will hold; 0 = not such
    int64_t counted                # what it takes of `FrameMemory.bytes`
    int64_t started_ms             # monotonic: since when its frame is awaited; 0 = none


cdef bint kept_put(
    FrameMemory* memory, Kept* kept, const uint8_t* data, size_t size, size_t announced,
    bint is_same_frame, int64_t now_ms) noexcept nogil
cdef void kept_grow(FrameMemory* memory, Kept* kept, size_t size) noexcept nogil
cdef void kept_drop(FrameMemory* memory, Kept* kept) noexcept nogil
cdef bint kept_is_slow(
    const Kept* kept, int64_t now_ms, int64_t under_way_ms_min, int64_t bytes_per_ms_min
) noexcept nogil
