"""The sparse index of a segment: offset → position and timestamp → offset, in Kafka's files.

    .index      int32 relative offset of a batch's last record | int32 position of that batch
    .timeindex  int64 largest timestamp so far | int32 relative offset of the record that has it

An entry is added per `index.interval.bytes` of log, so a lookup ends with a scan of a few headers.
The newest entries stay in memory, because most readers are near the end; older ones are searched in
the file by pread, so an idle or sealed segment holds no memory, mapping or descriptor. A file that
is searched often is read into memory while its segment is open. (It is not mapped: an I/O error
under a mapping ends the process, docs/decisions/0004-no-memory-mapped-files.md.) A binary search of
a large index would access about twenty cache lines far apart, each a cache miss. So a copy of every
64th entry follows all entries, a copy of every 64th of those follows them, and so on: a search
descends these levels, all but the last of which stay in the core's cache, and searches one run of
64 entries in each.

After a crash: the files are written without a sync and are not trusted past the recovery point,
which a checkpoint moves past a segment only once its index is synced. After an unclean stop the
other indexes are deleted and rebuilt from the log.
"""

from libc.errno cimport EIO, ENOENT
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, memmove
from posix.fcntl cimport O_RDONLY

from broker._native.kernel.big_endian cimport store_uint32, store_uint64
from broker._native.kernel.cursor cimport load_int32, load_int64, load_uint32
from broker._native.kernel.file_ops cimport (
    file_close,
    file_open,
    file_pread,
    file_read_at,
    file_size,
    file_write_at,
)

from broker.model import limits

cdef extern from *:
    void prefetch "__builtin_prefetch"(const void* address) noexcept nogil

cdef int32_t INDEX_ENTRIES_HELD_MAX = limits.INDEX_ENTRIES_HELD_MAX
cdef int32_t INDEX_MISSES_BEFORE_LOAD = limits.INDEX_MISSES_BEFORE_LOAD

cdef enum:
    TAIL_CAPACITY_MIN = 8
    RUN = 64                  # entries per entry of the level above
    RUN_BITS = 6
    ENTRIES_PER_LINE = 8      # of the processor's cache
    LEVELS_MAX = 6            # 64^6 is more than 2^31


cdef void index_init(OffsetIndex* index) noexcept nogil:
    index.tail = NULL
    index.tail_count = index.tail_capacity = index.tail_stored = 0
    index.stored = index.stored_times = 0
    index.last_timestamp = -1
    index.last_timestamp_offset = 0
    index.loaded = NULL
    index.loaded_count = 0
    index.misses = 0


cdef void index_free(OffsetIndex* index) noexcept nogil:
    free(index.tail)
    free(index.loaded)
    index_init(index)


cdef int64_t index_entries(OffsetIndex* index) noexcept nogil:
    """Return how many offset entries there are, in the file and in memory."""
    return index.stored + index.tail_count - index.tail_stored


cdef void index_free_tail(OffsetIndex* index) noexcept nogil:
    """Free the tail if all of it is in the files."""
    if index.tail_count == index.tail_stored:
        free(index.tail)
        index.tail = NULL
        index.tail_count = index.tail_stored = index.tail_capacity = 0


# ---- a copy of the file's entries in memory, while they are searched often -----------------------

cdef inline int64_t runs_of(int64_t count) noexcept nogil:
    return (count + RUN - 1) >> RUN_BITS


cdef int64_t loaded_bytes(int64_t count) noexcept nogil:
    # The size of `count` entries with the levels above them.
    cdef int64_t entries = count
    while count > RUN:
        count = runs_of(count)
        entries += count
    return entries * OFFSET_ENTRY_SIZE


cdef void add_levels(uint8_t* entries, int64_t count) noexcept nogil:
    cdef int64_t runs, i
    while count > RUN:
        runs = runs_of(count)
        for i in range(runs):
            memcpy(entries + (count + i) * OFFSET_ENTRY_SIZE,
                   entries + i * RUN * OFFSET_ENTRY_SIZE, OFFSET_ENTRY_SIZE)
        entries += count * OFFSET_ENTRY_SIZE
        count = runs


cdef int64_t index_wants_memory(OffsetIndex* index) noexcept nogil:
    """Return how many bytes a copy of the file's entries needs; 0: it should not be loaded."""
    cdef int64_t count = index.stored - index.tail_stored
    if index.misses < INDEX_MISSES_BEFORE_LOAD or count == index.loaded_count:
        return 0
    return loaded_bytes(count)


cdef int64_t index_load(OffsetIndex* index, const char* offset_path) noexcept nogil:
    """Read the file's entries into memory; return their bytes, 0 when that failed."""
    cdef int64_t count = index.stored - index.tail_stored
    cdef size_t size = <size_t>(count * OFFSET_ENTRY_SIZE)
    cdef uint8_t* loaded = <uint8_t*>malloc(<size_t>loaded_bytes(count))
    index.misses = 0
    if loaded == NULL:
        return 0
    if file_read_at(offset_path, loaded, size, 0) != <ssize_t>size:
        free(loaded)
        return 0
    add_levels(loaded, count)
    index.loaded = loaded
    index.loaded_count = count
    return loaded_bytes(count)


cdef int64_t index_unload(OffsetIndex* index) noexcept nogil:
    """Free what index_load allocated; return how many bytes that was."""
    cdef int64_t size = loaded_bytes(index.loaded_count)
    free(index.loaded)
    index.loaded = NULL
    index.loaded_count = 0
    index.misses = 0
    return size


cdef bint index_is_full(OffsetIndex* index) noexcept nogil:
    """Return whether index_store must run before the next entry."""
    return index.tail_count == INDEX_ENTRIES_HELD_MAX


cdef int index_append(
        OffsetIndex* index, int32_t relative_offset, uint32_t position, int64_t max_timestamp,
        int32_t timestamp_offset) noexcept nogil:
    """Add an entry. -1: no memory, or the tail is full; without the entry the index is sparser."""
    cdef int32_t capacity
    cdef IndexEntry* entry
    cdef void* grown
    if index.tail_count == index.tail_capacity:
        if index.tail_capacity == INDEX_ENTRIES_HELD_MAX:
            return -1
        capacity = index.tail_capacity * 2 if index.tail_capacity > 0 else TAIL_CAPACITY_MIN
        grown = realloc(index.tail, capacity * sizeof(IndexEntry))
        if grown == NULL:
            return -1
        index.tail = <IndexEntry*>grown
        index.tail_capacity = capacity
    entry = &index.tail[index.tail_count]
    entry.relative_offset = relative_offset
    entry.position = position
    entry.timestamp_offset = timestamp_offset
    entry.max_timestamp = -1
    if max_timestamp > index.last_timestamp:
        entry.max_timestamp = index.last_timestamp = max_timestamp
        index.last_timestamp_offset = timestamp_offset
    index.tail_count += 1
    return 0


cdef int index_store(OffsetIndex* index, const char* offset_path,
                     const char* time_path) noexcept nogil:
    """Write the entries that are not in the files yet and free half a full tail. 0 or -errno."""
    cdef int32_t count = index.tail_count - index.tail_stored, i, times = 0, dropped
    cdef IndexEntry* entry
    cdef uint8_t* offsets
    cdef uint8_t* stamps
    cdef int status
    if count > 0:
        offsets = <uint8_t*>malloc(count * (OFFSET_ENTRY_SIZE + TIME_ENTRY_SIZE))
        if offsets == NULL:
            return -12  # ENOMEM
        stamps = offsets + count * OFFSET_ENTRY_SIZE
        for i in range(count):
            entry = &index.tail[index.tail_stored + i]
            store_uint32(offsets + i * OFFSET_ENTRY_SIZE, entry.relative_offset)
            store_uint32(offsets + i * OFFSET_ENTRY_SIZE + 4, entry.position)
            if entry.max_timestamp >= 0:
                store_uint64(stamps + times * TIME_ENTRY_SIZE, entry.max_timestamp)
                store_uint32(stamps + times * TIME_ENTRY_SIZE + 8, entry.timestamp_offset)
                times += 1
        status = file_write_at(
            offset_path, offsets, count * OFFSET_ENTRY_SIZE, index.stored * OFFSET_ENTRY_SIZE)
        if status == 0 and times > 0:
            status = file_write_at(
                time_path, stamps, times * TIME_ENTRY_SIZE, index.stored_times * TIME_ENTRY_SIZE)
        free(offsets)
        if status < 0:
            return status
        index.stored += count
        index.stored_times += times
        index.tail_stored = index.tail_count
    if index.tail_count == INDEX_ENTRIES_HELD_MAX:
        dropped = INDEX_ENTRIES_HELD_MAX // 2
        memmove(index.tail, index.tail + dropped,
                (INDEX_ENTRIES_HELD_MAX - dropped) * sizeof(IndexEntry))
        index.tail_count -= dropped
        index.tail_stored -= dropped
    return 0


cdef int64_t entries_in(const char* path, int entry_size) noexcept nogil:
    """Return how many entries an index file has; 0 without a file, or -errno (-EIO: it is torn)."""
    cdef int fd = file_open(path, O_RDONLY, 0)
    cdef int64_t size
    if fd < 0:
        return 0 if fd == -ENOENT else fd
    size = file_size(fd)
    file_close(fd)
    if size < 0:
        return size
    return size // entry_size if size % entry_size == 0 else -EIO


cdef bint index_attach(OffsetIndex* index, const char* offset_path, const char* time_path,
                       int32_t* last_offset, uint32_t* last_position) noexcept nogil:
    """Use the files of a segment that was closed cleanly, and return the last offset entry.

    Returns whether both files have entries that can be read; if not, the index is empty and must
    be rebuilt.
    """
    cdef uint8_t last[TIME_ENTRY_SIZE]
    index_free(index)
    index.stored = entries_in(offset_path, OFFSET_ENTRY_SIZE)
    index.stored_times = entries_in(time_path, TIME_ENTRY_SIZE)
    if index.stored > 0 and index.stored_times > 0 and (
            file_read_at(offset_path, last, OFFSET_ENTRY_SIZE,
                         (index.stored - 1) * OFFSET_ENTRY_SIZE) == OFFSET_ENTRY_SIZE):
        last_offset[0] = load_int32(last)
        last_position[0] = load_uint32(last + 4)
        if file_read_at(time_path, last, TIME_ENTRY_SIZE,
                        (index.stored_times - 1) * TIME_ENTRY_SIZE) == TIME_ENTRY_SIZE:
            index.last_timestamp = load_int64(last)
            index.last_timestamp_offset = load_int32(last + 8)
            return True
    index_free(index)
    return False


# ---- lookups: the newest entry at or below a bound -----------------------------------------------

cdef enum Field:
    BY_OFFSET
    BY_POSITION
    BY_TIME
    BY_TIME_OFFSET             # the offset of a time entry


cdef inline int64_t tail_key(IndexEntry* entry, Field field) noexcept nogil:
    return entry.relative_offset if field == BY_OFFSET else entry.position


cdef inline int64_t loaded_key(const uint8_t* entries, int64_t index, Field field) noexcept nogil:
    # Relative offsets are never negative, so both fields can be read as unsigned.
    return load_uint32(entries + index * OFFSET_ENTRY_SIZE + (0 if field == BY_OFFSET else 4))


cdef inline int64_t floor_in_run(const uint8_t* entries, int64_t count, Field field,
                                 int64_t bound) noexcept nogil:
    # Return the last of at most RUN entries whose key is <= bound, or the first if none is. All
    # cache lines are prefetched at once and no step branches: cache misses and mispredicted
    # branches would cost more than the steps.
    cdef int64_t low = 0, half, line
    for line in range((count + ENTRIES_PER_LINE - 1) // ENTRIES_PER_LINE):
        prefetch(entries + line * ENTRIES_PER_LINE * OFFSET_ENTRY_SIZE)
    while count > 1:
        half = count >> 1
        low += half & -<int64_t>(loaded_key(entries, low + half, field) <= bound)
        count -= half
    return low


cdef int64_t floor_loaded(const uint8_t* entries, int64_t count, Field field, int64_t bound,
                          int32_t* offset) noexcept nogil:
    # As read_floor, over entries in memory with the levels above them.
    cdef int64_t counts[LEVELS_MAX]
    cdef int64_t starts[LEVELS_MAX]
    cdef int64_t first = 0
    cdef int level = 0
    counts[0], starts[0] = count, 0
    while counts[level] > RUN:
        starts[level + 1] = starts[level] + counts[level]
        counts[level + 1] = runs_of(counts[level])
        level += 1
    while True:
        first += floor_in_run(entries + (starts[level] + first) * OFFSET_ENTRY_SIZE,
                              min(RUN, counts[level] - first), field, bound)
        if level == 0:
            break
        level -= 1
        first <<= RUN_BITS
    offset[0] = load_int32(entries + first * OFFSET_ENTRY_SIZE)
    return load_uint32(entries + first * OFFSET_ENTRY_SIZE + 4)


cdef inline int64_t stored_key(const uint8_t* entry, Field field) noexcept nogil:
    if field == BY_TIME:
        return load_int64(entry)
    if field == BY_TIME_OFFSET:
        return load_int32(entry + 8)
    return load_int32(entry) if field == BY_OFFSET else load_uint32(entry + 4)


cdef bint read_floor(const char* path, int64_t first, int64_t count, Field field, int64_t bound,
                     uint8_t* found) noexcept nogil:
    # Read the last of `count` stored entries whose key is <= bound, searched from `first` on. False
    # when there is none or on an error: then the scan starts at the beginning, which is slower but
    # equally correct.
    cdef ssize_t size = TIME_ENTRY_SIZE if field >= BY_TIME else OFFSET_ENTRY_SIZE
    cdef int64_t low = first, high = count, middle
    cdef uint8_t entry[TIME_ENTRY_SIZE]
    cdef int fd
    if count <= first:
        return False
    fd = file_open(path, O_RDONLY, 0)
    if fd < 0:
        return False
    while low < high:
        middle = (low + high) // 2
        if file_pread(fd, entry, <size_t>size, middle * size) != size:
            low = first
            break
        if stored_key(entry, field) <= bound:
            memcpy(found, entry, <size_t>size)
            low = middle + 1
        else:
            high = middle
    file_close(fd)
    return low > first


cdef int64_t floor_stored(OffsetIndex* index, const char* path, Field field, int64_t bound,
                          int32_t* offset) noexcept nogil:
    # Search the entries that are not in the tail, in memory as far as they are loaded.
    cdef int64_t count = index.stored - index.tail_stored
    cdef uint8_t entry[OFFSET_ENTRY_SIZE]
    if index.loaded_count > 0 and loaded_key(index.loaded, 0, field) > bound:
        return 0
    if index.loaded_count == 0 or (
            index.loaded_count < count
            and loaded_key(index.loaded, index.loaded_count - 1, field) <= bound):
        index.misses += 1
        if read_floor(path, index.loaded_count, count, field, bound, entry):
            offset[0] = load_int32(entry)
            return load_uint32(entry + 4)
        if index.loaded_count == 0:
            return 0
    return floor_loaded(index.loaded, index.loaded_count, field, bound, offset)


cdef int64_t floor_of(OffsetIndex* index, const char* path, Field field, int64_t bound,
                      int32_t* offset) noexcept nogil:
    cdef int32_t low = 0, high = index.tail_count, middle
    offset[0] = -1
    if high == 0 or tail_key(&index.tail[0], field) > bound:
        return floor_stored(index, path, field, bound, offset)
    while low < high:
        middle = (low + high) // 2
        if tail_key(&index.tail[middle], field) <= bound:
            low = middle + 1
        else:
            high = middle
    return index.tail[low - 1].position


cdef int64_t index_floor_offset(OffsetIndex* index, const char* offset_path,
                                int32_t relative_offset, int32_t* offset) noexcept nogil:
    """Return a position at or before the batch that holds an offset, at most an interval before it.

    `offset` is set to the relative offset of the last record of the batch there if the entry came
    from a file, which may be damaged; else to -1.
    """
    return floor_of(index, offset_path, BY_OFFSET, relative_offset, offset)


cdef int64_t index_floor_position(OffsetIndex* index, const char* offset_path, int64_t position,
                                  int32_t* offset) noexcept nogil:
    """Return the last indexed start of a batch at or below a position; `offset` as above."""
    return floor_of(index, offset_path, BY_POSITION, position, offset)


cdef int64_t index_floor_time(OffsetIndex* index, const char* time_path, int64_t timestamp,
                              int64_t* found_timestamp) noexcept nogil:
    """Return a relative offset at or before the first record as new as `timestamp`; 0 if unknown.

    `found_timestamp` is set to that entry's timestamp if the entry came from a file, which may be
    damaged; else to -1.
    """
    cdef uint8_t entry[TIME_ENTRY_SIZE]
    cdef int32_t i
    found_timestamp[0] = -1
    for i in range(index.tail_count - 1, index.tail_stored - 1, -1):
        if 0 <= index.tail[i].max_timestamp < timestamp:
            return index.tail[i].timestamp_offset
    if not read_floor(time_path, 0, index.stored_times, BY_TIME, max(timestamp, 0) - 1, entry):
        return 0
    found_timestamp[0] = load_int64(entry)
    return load_int32(entry + 8)


cdef int64_t index_time_at(
        OffsetIndex* index, const char* time_path, int32_t relative_offset) noexcept nogil:
    """Return the largest timestamp up to an offset, as far as entries tell it; -1: none does."""
    cdef uint8_t entry[TIME_ENTRY_SIZE]
    cdef int32_t i
    for i in range(index.tail_count - 1, index.tail_stored - 1, -1):
        if index.tail[i].max_timestamp >= 0 and index.tail[i].timestamp_offset <= relative_offset:
            return index.tail[i].max_timestamp
    if read_floor(time_path, 0, index.stored_times, BY_TIME_OFFSET, relative_offset, entry):
        return load_int64(entry)
    return -1
