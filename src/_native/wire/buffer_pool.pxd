from libc.stdint cimport uint8_t

cdef enum:
    POOL_CLASSES = 12              # size classes: 32 KiB, 64 KiB ... 64 MiB
    POOL_SMALLEST = 32 << 10

# A free buffer holds the link to the next one in its own first bytes.
cdef struct FreeBuffer:
    FreeBuffer* next

cdef struct BufferPool:
    FreeBuffer* free[POOL_CLASSES]
    size_t bytes


cdef uint8_t* pool_take(
    BufferPool* pool, size_t size, size_t* capacity, size_t* touched) noexcept nogil
cdef void pool_give(BufferPool* pool, uint8_t* data, size_t capacity) noexcept nogil
cdef void pool_trim(BufferPool* pool) noexcept nogil
