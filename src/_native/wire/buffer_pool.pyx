"""Buffers for received bytes that must be stored: incomplete frames, and requests that must wait.

The allocator maps a buffer of some hundred KiB anew each time, and unmaps it when it is freed. Its
pages then fault one by one: 2 µs each on a virtual machine, more than the copy and the CRC of the
bytes in them. So freed buffers, whose sizes are powers of two, are reused for later frames, up to
FRAME_BUFFERS_BYTES_MAX in all.
"""

from libc.stdint cimport uint8_t
from libc.stdlib cimport free, malloc

from broker.model import limits

cdef size_t FRAME_BUFFERS_BYTES_MAX = limits.FRAME_BUFFERS_BYTES_MAX
cdef size_t HEAP_BLOCK_BYTES_MAX = limits.HEAP_BLOCK_BYTES_MAX


cdef int class_of(size_t size) noexcept nogil:
    cdef size_t capacity = POOL_SMALLEST
    cdef int place = 0
    while capacity < size:
        capacity *= 2
        place += 1
    return place


cdef uint8_t* pool_take(
        BufferPool* pool, size_t size, size_t* capacity, size_t* touched) noexcept nogil:
    """Return a buffer of at least `size` bytes, or NULL without memory. Small ones are not pooled.

    `touched` is how many of its bytes already have pages: all of them, unless it is a new mapping.
    """
    cdef int place
    cdef FreeBuffer* buffer
    capacity[0] = touched[0] = size
    if size < POOL_SMALLEST // 2:
        return <uint8_t*>malloc(size)
    place = class_of(size)
    capacity[0] = touched[0] = <size_t>POOL_SMALLEST << place
    if place >= POOL_CLASSES or pool.free[place] == NULL:
        if capacity[0] >= HEAP_BLOCK_BYTES_MAX:
            touched[0] = 0
        return <uint8_t*>malloc(capacity[0])
    buffer = pool.free[place]
    pool.free[place] = buffer.next
    pool.bytes -= capacity[0]
    return <uint8_t*>buffer


cdef void pool_give(BufferPool* pool, uint8_t* data, size_t capacity) noexcept nogil:
    """Return a buffer to the pool, or free it when the pool is full. NULL is allowed."""
    cdef int place
    cdef FreeBuffer* buffer = <FreeBuffer*>data
    if data == NULL:
        return
    place = class_of(capacity)
    if capacity < POOL_SMALLEST or place >= POOL_CLASSES or (
            pool.bytes + capacity > FRAME_BUFFERS_BYTES_MAX):
        free(data)
        return
    buffer.next = pool.free[place]
    pool.free[place] = buffer
    pool.bytes += capacity


cdef void pool_trim(BufferPool* pool) noexcept nogil:
    """Free all pooled buffers. Called once a second, so that an idle broker holds none."""
    cdef int place
    cdef FreeBuffer* buffer
    for place in range(POOL_CLASSES):
        while pool.free[place] != NULL:
            buffer = pool.free[place]
            pool.free[place] = buffer.next
            free(buffer)
    pool.bytes = 0
