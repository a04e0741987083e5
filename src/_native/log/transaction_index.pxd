from libc.stdint cimport int64_t

# The size of an entry, and the positions of its fields.
cdef enum:
    ENTRY_SIZE = 34
    PRODUCER_ID = 2
    FIRST_OFFSET = 10
    LAST_OFFSET = 18
    LAST_STABLE_OFFSET = 26

# An aborted transaction, for readers of committed records.
cdef struct AbortedTransaction:
    int64_t producer_id
    int64_t first_offset
    int64_t last_offset            # of its marker
    int64_t last_stable_offset     # of the log once the marker is below the high watermark

cdef struct AbortedList:
    AbortedTransaction* entries
    size_t count
    size_t capacity


cdef int aborted_append(const char* path, int64_t index, AbortedTransaction* entry) noexcept nogil
cdef int64_t aborted_count(const char* path) noexcept nogil
cdef int64_t aborted_newest(const char* path, int64_t count) noexcept nogil
cdef int64_t aborted_truncate(const char* path, int64_t marker_offset) noexcept nogil
cdef bint aborted_is_whole(const char* path, int64_t base_offset) noexcept nogil
cdef int aborted_find(const char* path, int64_t count, int64_t start, int64_t end,
                      AbortedList* into, bint* is_complete) noexcept nogil
cdef void aborted_list_sort(AbortedList* found) noexcept nogil
cdef void aborted_list_free(AbortedList* found) noexcept nogil
