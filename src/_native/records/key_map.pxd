from libc.stdint cimport int64_t, uint64_t

from broker._native.records.record_walk cimport Span


cdef struct Place:
    uint64_t low             # 128 bits of the key's hash, and the offset of its newest record
    uint64_t high
    int64_t offset           # -1: free


cdef class KeyMap:
    cdef uint64_t secret[2]
    cdef Place* places
    cdef uint64_t place_count
    cdef readonly int64_t capacity      # keys it takes
    cdef readonly int64_t count         # keys it has
    cdef public int64_t end_offset      # records from here on were not looked at

    cdef Place* place_of(self, const Span* key) noexcept nogil
    cdef bint put(self, const Span* key, int64_t offset) noexcept nogil
    cdef int64_t find(self, const Span* key) noexcept nogil
