"""The aborted transactions of a segment, in Kafka's `.txnindex` file, one after another:

    int16 version = 0 | int64 producer id | int64 first offset | int64 last offset, its marker's |
    int64 last stable offset once the marker is visible

An entry is written when the marker is appended. As the other indexes, the file is written without a
sync, synced before the recovery point passes it, and rebuilt from the log after an unclean stop.
"""

from libc.stdint cimport int64_t, uint8_t
from posix.fcntl cimport O_CREAT, O_RDWR, O_WRONLY

from broker._native.kernel.big_endian cimport store_uint64
from broker._native.kernel.cursor cimport load_int64
from broker._native.kernel.file_ops cimport (
    file_close,
    file_open,
    file_pread,
    file_pwrite,
    file_truncate,
)
from broker._native.log.offset_index cimport entries_in

import struct as _struct

from broker._native.kernel.file_ops import read_file

cdef enum:
    ENTRY_SIZE = 34
    LAST_OFFSET = 18      # its position in an entry

_ENTRY = _struct.Struct(">hqqqq")


cdef int aborted_append(const char* path, int64_t place, AbortedTransaction* entry) noexcept nogil:
    """Write an entry behind `place` others. 0 or -errno."""
    cdef uint8_t data[ENTRY_SIZE]
    cdef ssize_t written
    cdef int fd = file_open(path, O_WRONLY | O_CREAT, 0o600)
    if fd < 0:
        return fd
    data[0] = data[1] = 0
    store_uint64(data + 2, entry.producer_id)
    store_uint64(data + 10, entry.first_offset)
    store_uint64(data + 18, entry.last_offset)
    store_uint64(data + 26, entry.last_stable_offset)
    written = file_pwrite(fd, data, ENTRY_SIZE, place * ENTRY_SIZE)
    file_close(fd)
    return 0 if written >= 0 else <int>written


cdef int64_t aborted_count(const char* path) noexcept nogil:
    """How many entries a segment has; 0 when there is no file."""
    return entries_in(path, ENTRY_SIZE)


cdef int64_t aborted_truncate(const char* path, int64_t marker_offset) noexcept nogil:
    """Keep the entries whose markers stand before an offset; how many those are."""
    cdef int64_t count = aborted_count(path), kept = 0
    cdef uint8_t data[ENTRY_SIZE]
    cdef int fd
    if count == 0:
        return 0
    fd = file_open(path, O_RDWR, 0)
    if fd < 0:
        return 0
    while (kept < count and file_pread(fd, data, ENTRY_SIZE, kept * ENTRY_SIZE) == ENTRY_SIZE
            and load_int64(data + LAST_OFFSET) < marker_offset):
        kept += 1
    if file_truncate(fd, kept * ENTRY_SIZE) < 0:
        kept = 0
    file_close(fd)
    return kept


cdef list aborted_between(bytes path, int64_t start, int64_t end, bint* is_complete):
    """(producer id, first offset, last offset) of those that overlap [start, end).

    `is_complete` is set when no later segment can have one.
    """
    found = []
    data = read_file(path)
    for _, producer_id, first, last, stable in _ENTRY.iter_unpack(
            data[:len(data) // ENTRY_SIZE * ENTRY_SIZE]):
        if last >= start and first < end:
            found.append((producer_id, first, last))
        if stable >= end:
            is_complete[0] = True
            break
    return found


def select_entries(bytes data not None, chosen):
    """Return a file's entries that name one of these (producer id, first and marker's offset)."""
    return b"".join([
        data[start:start + ENTRY_SIZE]
        for start in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE)
        if _ENTRY.unpack_from(data, start)[1:4] in chosen])
