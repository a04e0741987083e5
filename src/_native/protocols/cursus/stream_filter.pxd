from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    LAYERS_MAX = 16


cdef struct FilterLayer:
    uint64_t* words
    uint32_t block_count
    int64_t room              # for so many keys before it answers "maybe" too often


cdef class FilterMemory:
    cdef readonly int64_t size            # of all filters
    cdef readonly int64_t size_max


cdef class KeyFilter:
    cdef FilterMemory memory
    cdef FilterLayer layers[LAYERS_MAX]
    cdef int layer_count
    cdef readonly bint is_whole           # every key with a stream has been added
    cdef bint has_lost                    # a key, for want of memory

    cdef void put(self, const uint8_t* key, size_t size) noexcept
    cdef bint lacks(self, const uint8_t* key, size_t size) noexcept
    cdef bint grow(self) noexcept
