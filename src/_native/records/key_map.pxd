from libc.stdint cimport int64_t, uint64_t

from broker._native.records.record_walk cimport Span


cdef struct KeyHash:
    uint64_t low
    uint64_t high


cdef struct Place:
    KeyHash hash
    int64_t offset           # of the key's newest record; -1: an empty slot


cdef class KeyMap:
    cdef uint64_t secret[2]
    cdef Place* places
    cdef uint64_t place_count
    cdef readonly int64_t capacity      # largest count
    cdef readonly int64_t count         # of keys
    cdef public int64_t end_offset      # records from here on were not read

    cdef KeyHash foresee(self, const Span* key) noexcept nogil
    cdef Place* find_slot(self, const KeyHash* hash) noexcept nogil
    cdef bint put(self, const KeyHash* hash, int64_t offset) noexcept nogil
    cdef int64_t find(self, const KeyHash* hash) noexcept nogil
