from broker._native.records.record_walk cimport Span
from broker._native.records.rows cimport Filter


cdef class KeyFilter:
    cdef object keys         # keeps the bytes alive that the spans point to
    cdef Span prefix
    cdef Span* table
    cdef size_t mask

    cdef int add(self, key) except -1
    cdef void apply(self, Filter* filter) noexcept
