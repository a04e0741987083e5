from libc.stdint cimport int64_t

# A transaction that was aborted, as a reader of committed records must know it.
cdef struct AbortedTransaction:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset            # its marker's
    int64_t last_stable_offset     # once the marker is visible


cdef int aborted_append(const char* path, int64_t place, AbortedTransaction* entry) noexcept nogil
cdef int64_t aborted_count(const char* path) noexcept nogil
cdef int64_t aborted_truncate(const char* path, int64_t marker_offset) noexcept nogil
cdef list aborted_between(bytes path, int64_t start, int64_t end, bint* is_complete)
