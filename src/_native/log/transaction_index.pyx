"""The aborted transactions of a segment, in Kafka's `.txnindex` file, one after another:

    int16 version = 0 | int64 producer id | int64 first offset | int64 last offset, its marker's |
    int64 last stable offset once the marker is below the high watermark

An entry is written when the marker is appended. Like the other indexes, the file is written without
a sync, synced before the recovery point passes it, and rebuilt from the log after an unclean stop.
"""

from libc.errno cimport EIO, ENOENT, ENOMEM
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, qsort
from posix.fcntl cimport O_RDONLY, O_RDWR

from broker._native.kernel.big_endian cimport store_uint64
from broker._native.kernel.cursor cimport load_int64
from broker._native.kernel.file_ops cimport (
    file_close,
    file_open,
    file_pread,
    file_read_at,
    file_truncate,
    file_write_at,
)
from broker._native.kernel.growing cimport make_capacity
from broker._native.log.offset_index cimport entries_in

import struct as _struct

cdef enum:
    ENTRIES_READ = 64     # per read

_ENTRY = _struct.Struct(">hqqqq")


cdef int aborted_append(const char* path, int64_t index, AbortedTransaction* entry) noexcept nogil:
    """Write an entry after `index` others. 0 or -errno."""
    cdef uint8_t data[ENTRY_SIZE]
    data[0] = data[1] = 0
    store_uint64(data + 2, entry.producer_id)
    store_uint64(data + 10, entry.first_offset)
    store_uint64(data + 18, entry.last_offset)
    store_uint64(data + 26, entry.last_stable_offset)
    return file_write_at(path, data, ENTRY_SIZE, index * ENTRY_SIZE)


cdef int64_t aborted_count(const char* path) noexcept nogil:
    """Return how many entries a segment has; 0 when there is no file, or -errno."""
    return entries_in(path, ENTRY_SIZE)


cdef int64_t aborted_newest(const char* path, int64_t count) noexcept nogil:
    """Return the offset of the marker of the last of `count` entries, or -errno."""
    cdef uint8_t offset[8]
    cdef ssize_t size = file_read_at(
        path, offset, sizeof(offset), (count - 1) * ENTRY_SIZE + LAST_OFFSET)
    if size < <ssize_t>sizeof(offset):
        return size if size < 0 else -EIO
    return load_int64(offset)


cdef bint can_follow(const uint8_t* entry, int64_t marker_offset) noexcept nogil:
    # Return whether this can be the entry after one whose marker is at `marker_offset`.
    cdef int64_t first = load_int64(entry + FIRST_OFFSET), last = load_int64(entry + LAST_OFFSET)
    return (entry[0] == 0 and entry[1] == 0 and load_int64(entry + PRODUCER_ID) >= 0
            and 0 <= first < last and marker_offset < last
            and 0 <= load_int64(entry + LAST_STABLE_OFFSET) <= last + 1)


cdef int64_t aborted_truncate(const char* path, int64_t marker_offset) noexcept nogil:
    """Keep the entries whose markers are before an offset; return how many those are, or -errno.

    An invalid entry, left by a power cut, ends them.
    """
    cdef uint8_t data[ENTRY_SIZE]
    cdef ssize_t size = ENTRY_SIZE
    cdef int64_t kept = 0, marker = -1
    cdef int status
    cdef int fd = file_open(path, O_RDWR, 0)
    if fd < 0:
        return 0 if fd == -ENOENT else fd
    while marker_offset > 0:
        size = file_pread(fd, data, ENTRY_SIZE, kept * ENTRY_SIZE)
        if size < ENTRY_SIZE or not can_follow(data, marker) or (
                load_int64(data + LAST_OFFSET) >= marker_offset):
            break
        marker = load_int64(data + LAST_OFFSET)
        kept += 1
    status = <int>size if size < 0 else file_truncate(fd, kept * ENTRY_SIZE)
    file_close(fd)
    return status if status < 0 else kept


cdef bint aborted_is_whole(const char* path, int64_t base_offset) noexcept nogil:
    """Return whether the entries of a segment's file are valid: in order, none torn, its own."""
    cdef int64_t count = aborted_count(path), place = 0, marker = base_offset - 1
    cdef uint8_t data[ENTRY_SIZE]
    cdef int fd
    if count <= 0:
        return count == 0
    fd = file_open(path, O_RDONLY, 0)
    if fd < 0:
        return False
    while (place < count and file_pread(fd, data, ENTRY_SIZE, place * ENTRY_SIZE) == ENTRY_SIZE
            and can_follow(data, marker)):
        marker = load_int64(data + LAST_OFFSET)
        place += 1
    file_close(fd)
    return place == count


cdef int aborted_find(const char* path, int64_t count, int64_t start, int64_t end,
                      AbortedList* into, bint* is_complete) noexcept nogil:
    """Add the entries, of `count`, that overlap [start, end). 0 or -errno.

    `is_complete` is set when no later segment can have one.
    """
    cdef uint8_t data[ENTRIES_READ * ENTRY_SIZE]
    cdef int64_t place
    cdef ssize_t size = 0, at
    cdef int status = 0
    cdef int fd = file_open(path, O_RDONLY, 0)
    if fd < 0:
        return fd
    place = first_from(fd, count, start)
    while place < count and status == 0 and not is_complete[0]:
        size = file_pread(fd, data, sizeof(data), place * ENTRY_SIZE)
        if size < ENTRY_SIZE:
            status = <int>size if size < 0 else -EIO
        at = 0
        while at + ENTRY_SIZE <= size and status == 0 and not is_complete[0]:
            if load_int64(data + at + FIRST_OFFSET) < end:
                status = list_add(into, data + at)
            is_complete[0] = load_int64(data + at + LAST_STABLE_OFFSET) >= end
            at += ENTRY_SIZE
            place += 1
    file_close(fd)
    return status


cdef int64_t first_from(int fd, int64_t count, int64_t start) noexcept nogil:
    # Return the index of the first entry whose marker is at or after an offset; they are sorted.
    cdef uint8_t data[8]
    cdef int64_t low = 0, middle
    while low < count:
        middle = (low + count) // 2
        if file_pread(fd, data, 8, middle * ENTRY_SIZE + LAST_OFFSET) < 8:
            return low        # the caller's read reports the error
        if load_int64(data) < start:
            low = middle + 1
        else:
            count = middle
    return low


cdef int list_add(AbortedList* into, const uint8_t* entry) noexcept nogil:
    # The capacity is in bytes.
    if not make_capacity(<void**>&into.entries, &into.capacity,
                         (into.count + 1) * sizeof(AbortedTransaction)):
        return -ENOMEM
    into.entries[into.count].producer_id = load_int64(entry + PRODUCER_ID)
    into.entries[into.count].first_offset = load_int64(entry + FIRST_OFFSET)
    into.entries[into.count].last_offset = load_int64(entry + LAST_OFFSET)
    into.entries[into.count].last_stable_offset = load_int64(entry + LAST_STABLE_OFFSET)
    into.count += 1
    return 0


cdef void aborted_list_sort(AbortedList* found) noexcept nogil:
    """Order by first offset."""
    if found.count > 1:
        qsort(found.entries, found.count, sizeof(AbortedTransaction), compare_first)


cdef int compare_first(const void* one, const void* other) noexcept nogil:
    cdef int64_t first = (<const AbortedTransaction*>one).first_offset
    cdef int64_t second = (<const AbortedTransaction*>other).first_offset
    return (first > second) - (first < second)


cdef void aborted_list_free(AbortedList* found) noexcept nogil:
    """Give the list's memory back."""
    free(found.entries)
    found.entries = NULL
    found.count = found.capacity = 0


def select_entries(bytes data not None, chosen):
    """Return a file's entries that name one of these (producer id, first and marker's offset)."""
    return b"".join([
        data[start:start + ENTRY_SIZE]
        for start in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE)
        if _ENTRY.unpack_from(data, start)[1:4] in chosen])
