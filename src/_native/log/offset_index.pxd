from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

cdef enum:
    OFFSET_ENTRY_SIZE = 8
    TIME_ENTRY_SIZE = 12

cdef struct IndexEntry:
    int32_t relative_offset       # of the batch's last record, from the segment's base offset
    uint32_t position             # where that batch starts
    int64_t max_timestamp         # largest in the segment up to here, or -1: unchanged
    int32_t timestamp_offset      # relative offset of the record that has it

# The entries of one segment: `tail` holds the newest ones, the first `tail_stored` of which are
# also in the files; the files hold `stored` offset entries and `stored_times` time entries.
cdef struct OffsetIndex:
    IndexEntry* tail
    int32_t tail_count
    int32_t tail_capacity
    int32_t tail_stored
    int64_t stored
    int64_t stored_times
    int64_t last_timestamp        # the newest time entry, and its relative offset
    int32_t last_timestamp_offset
    uint8_t* loaded               # a copy of the file's first `loaded_count` offset entries
    int64_t loaded_count
    int32_t misses                # lookups that read the file since it was opened


cdef int64_t entries_in(const char* path, int entry_size) noexcept nogil
cdef void index_init(OffsetIndex* index) noexcept nogil
cdef void index_free(OffsetIndex* index) noexcept nogil
cdef int index_append(
    OffsetIndex* index, int32_t relative_offset, uint32_t position, int64_t max_timestamp,
    int32_t timestamp_offset) noexcept nogil
cdef int64_t index_entries(OffsetIndex* index) noexcept nogil
cdef void index_free_tail(OffsetIndex* index) noexcept nogil
cdef int64_t index_wants_memory(OffsetIndex* index) noexcept nogil
cdef int64_t index_load(OffsetIndex* index, const char* offset_path) noexcept nogil
cdef int64_t index_unload(OffsetIndex* index) noexcept nogil
cdef bint index_is_full(OffsetIndex* index) noexcept nogil
cdef int index_store(
    OffsetIndex* index, const char* offset_path, const char* time_path) noexcept nogil
cdef bint index_attach(
    OffsetIndex* index, const char* offset_path, const char* time_path, int32_t* last_offset,
    uint32_t* last_position) noexcept nogil
cdef int64_t index_floor_offset(
    OffsetIndex* index, const char* offset_path, int32_t relative_offset,
    int32_t* offset) noexcept nogil
cdef int64_t index_floor_position(
    OffsetIndex* index, const char* offset_path, int64_t position, int32_t* offset) noexcept nogil
cdef int64_t index_floor_time(
    OffsetIndex* index, const char* time_path, int64_t timestamp,
    int64_t* found_timestamp) noexcept nogil
cdef int64_t index_time_at(
    OffsetIndex* index, const char* time_path, int32_t relative_offset) noexcept nogil
