"""One segment of a log: the file (segment_file) with its indexes; append, locate, slice, damage.

Compaction leaves gaps between the offsets of a sealed segment's batches; a search for an offset in
a gap finds the next batch. A segment is open while it is used (open_files.pyx).
"""

cimport cython
from libc.errno cimport ENOENT
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from posix.fcntl cimport O_RDWR

from broker._native.kernel.cursor cimport load_int32, load_int64
from broker._native.kernel.file_ops cimport (
    file_close,
    file_open,
    file_pread,
    file_remove,
    file_sync_data,
    file_sync_folder,
)
from broker._native.log.header_window cimport (
    BASE_TIMESTAMP_POSITION,
    CODEC_POSITION,
    LAST_OFFSET_DELTA_POSITION,
    MAGIC_POSITION,
    MAX_TIMESTAMP_END,
    MAX_TIMESTAMP_POSITION,
    NO_BATCH,
    OFFSET_FIELDS_SIZE,
    WINDOW_SIZE,
    HeaderWindow,
    batch_size,
    header_at,
    last_offset_of,
    window_open,
)
from broker._native.log.offset_index cimport (
    index_append,
    index_attach,
    index_floor_offset,
    index_floor_position,
    index_free,
    index_init,
    index_is_full,
    index_load,
    index_store,
    index_time_at,
    index_unload,
    index_wants_memory,
)
from broker._native.log.segment_file cimport PATH_SIZE, SegmentFile
from broker._native.log.transaction_index cimport (
    AbortedList,
    AbortedTransaction,
    aborted_append,
    aborted_count,
    aborted_find,
    aborted_is_whole,
    aborted_newest,
    aborted_truncate,
)
from broker._native.records.record_batch cimport (
    ATTRIBUTE_LOG_APPEND_TIME, BATCH_HEADER_SIZE, BATCH_LENGTH_END, BatchInfo,
)

import logging

from broker.model import limits

logger = logging.getLogger(__name__)

cdef int32_t INDEX_INTERVAL_BYTES = limits.INDEX_INTERVAL_BYTES
assert READ_HINTS == limits.READ_HINTS_PER_SEGMENT

cdef enum:
    STEPPED_MAX = 128 << 10      # a slice up to this size is walked without an index lookup
    NOT_LOOKED_UP = -2

cdef const char* INDEX_SUFFIXES[3]
INDEX_SUFFIXES[0], INDEX_SUFFIXES[1], INDEX_SUFFIXES[2] = b".index", b".timeindex", b".txnindex"


cdef int sync_file(const char* path) noexcept nogil:
    cdef int fd = file_open(path, O_RDWR, 0)
    cdef int status
    if fd < 0:
        return 0 if fd == -ENOENT else fd   # a file without entries does not exist
    status = file_sync_data(fd)
    file_close(fd)
    return status


@cython.final
@cython.no_gc
cdef class Segment(SegmentFile):
    """A segment of one partition's log; changed only by its PartitionLog."""

    def __cinit__(self, *_):
        self.first_timestamp = NOT_LOOKED_UP
        self.max_timestamp = -1
        self.max_timestamp_offset = self.base_offset
        self.index_interval = INDEX_INTERVAL_BYTES
        self.newest_abort = -1
        index_init(&self.index)

    def __dealloc__(self):
        self.files.release_memory(index_unload(&self.index))
        index_free(&self.index)

    cdef void close(self) noexcept:
        self.files.release_memory(index_unload(&self.index))
        SegmentFile.close(self)

    cdef void note(self, BatchInfo* info, int64_t base_offset, int32_t interval) noexcept nogil:
        """Update size and timestamps for an appended batch and, once per interval, the index."""
        cdef int64_t last_offset = base_offset + info.last_offset_delta
        self.index_interval = interval
        if self.size == 0:
            self.first_timestamp = info.max_timestamp
        if info.max_timestamp > self.max_timestamp:
            self.max_timestamp = info.max_timestamp
            self.max_timestamp_offset = last_offset
        if self.bytes_since_entry > interval:
            self.add_entry(last_offset, self.size, self.max_timestamp, self.max_timestamp_offset)
            self.bytes_since_entry = 0
        self.bytes_since_entry += <int32_t>info.size
        self.last_batch_offset = last_offset
        self.last_batch_position = self.size
        self.size += <int64_t>info.size

    cdef void add_entry(self, int64_t last_offset, int64_t position, int64_t max_timestamp,
                        int64_t max_timestamp_offset) noexcept nogil:
        """Add an index entry for a batch. Without memory or disk space the index stays sparser."""
        if index_is_full(&self.index):
            self.store_index()
        index_append(&self.index, <int32_t>(last_offset - self.base_offset), <uint32_t>position,
                     max_timestamp, <int32_t>(max_timestamp_offset - self.base_offset))

    cdef int store_index(self) noexcept nogil:
        """Write the index entries that are only in memory. 0 or -errno."""
        cdef char offset_path[PATH_SIZE]
        cdef char time_path[PATH_SIZE]
        self.path(offset_path, b".index")
        self.path(time_path, b".timeindex")
        self.is_index_dirty = self.is_index_dirty or self.index.tail_count > self.index.tail_stored
        return index_store(&self.index, offset_path, time_path)

    cdef int sync_index(self) noexcept nogil:
        """Sync the index files; from any thread. 0 or -errno."""
        cdef char path[PATH_SIZE]
        cdef int status = 0, i
        if not self.is_index_dirty:
            return 0
        for i in range(3):
            self.path(path, INDEX_SUFFIXES[i])
            status = sync_file(path)
            if status < 0:
                break
        self.is_index_dirty = status < 0
        return status

    cdef int64_t roll_time(self) noexcept:
        """Return the time that segment.ms counts from: that of the first batch, as in Kafka.

        -1 when it has none.
        """
        cdef uint8_t first[BATCH_HEADER_SIZE]
        if self.first_timestamp == NOT_LOOKED_UP and self.written > 0 and self.open(False) == 0:
            self.first_timestamp = -1
            if file_pread(self.fd, first, BATCH_HEADER_SIZE, 0) == BATCH_HEADER_SIZE:
                self.first_timestamp = load_int64(first + MAX_TIMESTAMP_POSITION)
        return self.first_timestamp

    cdef int finish_index(self) noexcept nogil:
        """Write the index with a last entry for the largest timestamp. 0 or -errno."""
        if self.max_timestamp > self.index.last_timestamp and self.size > 0:
            self.add_entry(self.last_batch_offset, self.last_batch_position, self.max_timestamp,
                           self.max_timestamp_offset)
            self.bytes_since_entry = 0
        return self.store_index()

    cdef int note_aborted(self, AbortedTransaction* aborted) noexcept nogil:
        """Write an entry for an aborted transaction with its marker here. 0 or -errno."""
        cdef char path[PATH_SIZE]
        cdef int status
        self.path(path, b".txnindex")
        status = aborted_append(path, self.aborted_count, aborted)
        if status == 0:
            self.aborted_count += 1
            self.newest_abort = aborted.last_offset
            self.is_index_dirty = True
            self.has_unsynced_aborts = True
        return status

    cdef int sync_aborted(self) noexcept nogil:
        """Sync the index of aborted transactions and its name; from any thread. 0 or -errno.

        An entry written meanwhile may count as unsynced although it is, never the other way round.
        """
        cdef char path[PATH_SIZE]
        cdef int status
        self.has_unsynced_aborts = False
        self.path(path, b".txnindex")
        status = sync_file(path)
        if status == 0:
            status = file_sync_folder(self.folder_path)
        if status < 0:
            self.has_unsynced_aborts = True
        return status

    cdef int find_aborted(self, int64_t start, int64_t end, AbortedList* into,
                          bint* is_complete) noexcept nogil:
        """Add the aborted transactions that overlap [start, end). 0 or -errno.

        `is_complete` is set when no later segment can have one.
        """
        cdef char path[PATH_SIZE]
        if self.aborted_count == 0 or start > self.newest_abort >= 0:
            return 0   # the case of every reader near the end of the log
        self.path(path, b".txnindex")
        if self.newest_abort < 0:
            self.newest_abort = aborted_newest(path, self.aborted_count)
        if self.newest_abort < 0:
            return <int>self.newest_abort
        if start > self.newest_abort:
            return 0
        return aborted_find(path, self.aborted_count, start, end, into, is_complete)

    cdef int drop_index(self, int64_t aborted_from) noexcept nogil:
        """Delete the index, in memory and on disk, before it is rebuilt. 0 or -errno.

        Aborted transactions whose markers are before `aborted_from` are kept.
        """
        cdef char path[PATH_SIZE]
        cdef int64_t kept
        cdef int status
        index_free(&self.index)
        status = self.remove_index()
        if status < 0:
            return status   # old entries would follow the new ones
        self.path(path, b".txnindex")
        kept = aborted_truncate(path, aborted_from)
        if kept < 0:
            return <int>kept
        self.aborted_count = kept
        self.newest_abort = -1
        return 0

    cdef int remove_index(self) noexcept nogil:
        """Delete the files of offsets and timestamps, if there are any. 0 or -errno."""
        cdef char path[PATH_SIZE]
        cdef int status, i, failed = 0
        for i in range(2):
            self.path(path, INDEX_SUFFIXES[i])
            status = file_remove(path)
            if status < 0 and status != -ENOENT:
                failed = status
        return failed

    cdef int attach(self) noexcept:
        """Use a file that was closed cleanly. 0 or -errno.

        Only the batches after the last index entry are read: `has_index` and `has_aborted` are set
        to whether the indexes exist and match this segment, `is_cut_off` to whether the last entry
        is of a batch after the file's end.
        """
        cdef char offset_path[PATH_SIZE]
        cdef char time_path[PATH_SIZE]
        cdef char aborted_path[PATH_SIZE]
        cdef int32_t last_offset
        cdef uint32_t last_position
        cdef int status = self.open(False)
        if status < 0:
            return status
        self.size = self.written = self.reserved
        self.path(offset_path, b".index")
        self.path(time_path, b".timeindex")
        self.has_index = index_attach(
            &self.index, offset_path, time_path, &last_offset, &last_position)
        self.is_cut_off = self.has_index and last_position >= self.written
        self.has_index = self.has_index and self.fits(last_offset, last_position)
        self.close()
        self.path(aborted_path, b".txnindex")
        self.has_aborted = aborted_is_whole(aborted_path, self.base_offset)
        self.aborted_count = aborted_count(aborted_path) if self.has_aborted else 0
        self.max_timestamp = self.index.last_timestamp
        self.max_timestamp_offset = self.base_offset + self.index.last_timestamp_offset
        return status

    cdef bint fits(self, int32_t last_offset, int64_t position) noexcept nogil:
        """Return whether the last entries of the index match the end of this file.

        The last offset entry must point to a batch with that last offset, from which headers lead
        to the end of the file, and no batch there may be newer than the last time entry.
        """
        cdef HeaderWindow window
        cdef const uint8_t* head
        cdef int64_t timestamp
        cdef bint is_first = True
        window_open(&window, self.fd, MAX_TIMESTAMP_END)   # most often it is the only batch
        while position < self.written:
            head = header_at(&window, position, MAX_TIMESTAMP_END)
            if head == NULL or batch_size(head) == 0:
                return False
            timestamp = load_int64(head + MAX_TIMESTAMP_POSITION)
            if timestamp > self.index.last_timestamp:
                return False
            if is_first and last_offset_of(head) - self.base_offset != last_offset:
                return False
            if is_first and last_offset == self.index.last_timestamp_offset and (
                    timestamp != self.index.last_timestamp):
                return False
            is_first = False
            position += batch_size(head)
        return position == self.written and not is_first

    # ---- finding ------------------------------------------------------------------------------

    cdef int64_t batch_end(self, int64_t position) noexcept nogil:
        """Return where the batch at a position ends, or -errno (NO_BATCH when there is none)."""
        cdef uint8_t head[BATCH_LENGTH_END]
        cdef ssize_t count = file_pread(self.fd, head, BATCH_LENGTH_END, position)
        if count < 0:
            return count
        if count < BATCH_LENGTH_END or batch_size(head) == 0:
            return NO_BATCH
        return position + batch_size(head)

    # ---- damage -------------------------------------------------------------------------------

    cdef void set_damaged(self, list ranges):
        self.damaged = sorted(ranges) or None

    cdef int64_t broken_at(self, int64_t offset, int64_t* first) noexcept:
        """Return the position where the chain of headers breaks, searched from before an offset on.

        `first` receives the offset that was expected there. The segment's size when the chain
        reaches its end; -errno when the file cannot be read. The segment is open.
        """
        cdef char path[PATH_SIZE]
        cdef HeaderWindow window
        cdef const uint8_t* head
        cdef int64_t position, size, valid = 0
        cdef int64_t relative = min(max(offset - self.base_offset, 0), INT32_MAX)
        cdef int32_t indexed
        cdef bint is_damaged = False
        window_open(&window, self.fd, WINDOW_SIZE)
        if self.damaged is not None:
            valid = self.valid_start(offset, &is_damaged)
        self.path(path, b".index")
        position = index_floor_offset(&self.index, path, <int32_t>relative, &indexed)
        if indexed < 0 or not self.has_batch(position, indexed):
            position = 0
        position = max(position, valid)
        first[0] = self.base_offset
        while position < self.written:
            head = header_at(&window, position, OFFSET_FIELDS_SIZE)
            if head == NULL:
                return position if window.status == NO_BATCH else window.status
            size = batch_size(head)
            if (size == 0 or size > self.written - position
                    or head[MAGIC_POSITION] != 2 or load_int64(head) < first[0]
                    or load_int32(head + LAST_OFFSET_DELTA_POSITION) < 0):
                return position
            first[0] = last_offset_of(head) + 1
            position += size
        return position

    cdef int64_t valid_end(self, int64_t offset, int64_t* end_offset) noexcept:
        """Return where the undamaged bytes from an offset on end; `end_offset` is the offset there.

        -1: the offset itself is damaged; INT64_MAX, with `end_offset` unchanged: no damage follows.
        """
        for first, end, position, _ in self.damaged:
            if first <= offset < end:
                return -1
            if offset < first:
                end_offset[0] = first
                return position
        return INT64_MAX

    cdef int64_t valid_start(self, int64_t offset, bint* is_damaged) noexcept:
        """Return the position from which headers lead to an offset, or where its damage begins."""
        cdef int64_t start = 0
        for first, end, position, end_position in self.damaged:
            if first <= offset < end:
                is_damaged[0] = True
                return position
            if end <= offset:
                start = end_position
        return start

    cdef int64_t locate(self, int64_t offset) noexcept:
        """Return the position of the first batch that ends at or after an offset.

        The segment's size when all batches end before it; -errno when the file cannot be read.
        """
        cdef char path[PATH_SIZE]
        cdef HeaderWindow window
        cdef const uint8_t* head
        cdef int64_t position, size, valid = 0
        cdef int32_t indexed
        cdef int i
        cdef bint is_damaged = False
        if self.damaged is not None:
            valid = self.valid_start(offset, &is_damaged)
            if is_damaged:
                return valid
        for i in range(READ_HINTS):
            if self.hints[i].offset == offset and self.hints[i].position > 0:
                return self.hints[i].position
        if offset <= self.base_offset:
            return 0
        self.path(path, b".index")
        self.load_index(path)
        position = index_floor_offset(
            &self.index, path, <int32_t>min(offset - self.base_offset, INT32_MAX), &indexed)
        if indexed >= 0 and not self.has_batch(position, indexed):
            # In a damaged segment headers may be wrong, so no index is built from them.
            position = self.rebuild_index() if self.damaged is None else 0
            if position < 0:
                return position
        position = max(position, valid)
        window_open(&window, self.fd, WINDOW_SIZE)
        while position < self.written:
            head = header_at(&window, position, OFFSET_FIELDS_SIZE)
            if head == NULL:
                return window.status
            size = batch_size(head)
            if size == 0 or size > self.written - position or head[MAGIC_POSITION] != 2:
                return NO_BATCH
            if last_offset_of(head) >= offset:
                return position
            position += size
        return self.written

    cdef int64_t time_at(self, int64_t offset) noexcept:
        """Return the time of the first batch that ends at or after an offset: when it was appended,
        or the time of its first record. -1: it has none, or cannot be read; -2: there is no batch.
        """
        cdef HeaderWindow window
        cdef const uint8_t* head
        cdef int64_t position
        if self.open(False) < 0:
            return -1
        position = self.locate(offset)
        if position < 0:
            return -1
        if position >= self.written:
            return -2
        window_open(&window, self.fd, MAX_TIMESTAMP_END)
        head = header_at(&window, position, MAX_TIMESTAMP_END)
        if head == NULL or batch_size(head) == 0 or head[MAGIC_POSITION] != 2:
            return -1
        if head[CODEC_POSITION] & ATTRIBUTE_LOG_APPEND_TIME:
            return load_int64(head + MAX_TIMESTAMP_POSITION)
        return load_int64(head + BASE_TIMESTAMP_POSITION)

    cdef int64_t newest_before(self, int64_t offset, int64_t end) noexcept:
        """Return the largest timestamp of the batches below an offset, whose last one ends at a
        position; -1 for none. Of a file that cannot be read, only entries of the index are used.
        """
        cdef char path[PATH_SIZE]
        cdef HeaderWindow window
        cdef const uint8_t* head
        cdef int64_t position, newest
        cdef int32_t indexed
        cdef int32_t last = <int32_t>min(offset - self.base_offset - 1, INT32_MAX)
        if self.max_timestamp_offset < offset:
            return self.max_timestamp
        if self.open(False) < 0 or last < 0:
            return -1
        self.path(path, b".timeindex")
        newest = index_time_at(&self.index, path, last)
        # Entries of both indexes are added together: batches before this position are covered.
        self.path(path, b".index")
        position = index_floor_offset(&self.index, path, last, &indexed)
        if indexed >= 0 and not self.has_batch(position, indexed):
            position = 0
        window_open(&window, self.fd, WINDOW_SIZE)
        while position < end:
            head = header_at(&window, position, MAX_TIMESTAMP_END)
            if head == NULL or batch_size(head) == 0:
                break
            newest = max(newest, load_int64(head + MAX_TIMESTAMP_POSITION))
            position += batch_size(head)
        return newest

    cdef bint has_batch(self, int64_t position, int32_t relative_offset) noexcept nogil:
        """Return whether the batch at a position has the last offset of its index entry."""
        cdef uint8_t head[OFFSET_FIELDS_SIZE]
        return (position <= self.written - BATCH_HEADER_SIZE
                and file_pread(self.fd, head, OFFSET_FIELDS_SIZE, position) == OFFSET_FIELDS_SIZE
                and last_offset_of(head) - self.base_offset == relative_offset)

    cdef int rebuild_index(self) noexcept:
        """Rebuild the index from the batch headers in the file. 0 or -errno.

        An entry that points to no batch would make a reader miss records. The segment is open.
        Staged batches get no entry: the index is sparser there.
        """
        cdef HeaderWindow window
        cdef const uint8_t* head
        cdef int64_t position = 0, since_entry = 0, newest = -1, last = 0
        cdef int64_t last_offset = self.base_offset, newest_at = self.base_offset
        logger.warning("index rebuilt: folder=%s base_offset=%d: an entry names no batch",
                       self.folder.decode("utf-8", "surrogateescape"), self.base_offset)
        self.files.release_memory(index_unload(&self.index))
        index_free(&self.index)
        self.remove_index()
        window_open(&window, self.fd, WINDOW_SIZE)
        while position < self.written:
            head = header_at(&window, position, MAX_TIMESTAMP_END)
            if head == NULL:
                return window.status
            if batch_size(head) == 0:
                return NO_BATCH
            last = position
            last_offset = last_offset_of(head)
            if load_int64(head + MAX_TIMESTAMP_POSITION) > newest:
                newest = load_int64(head + MAX_TIMESTAMP_POSITION)
                newest_at = last_offset
            if since_entry > self.index_interval:
                self.add_entry(last_offset, position, newest, newest_at)
                since_entry = 0
            since_entry += batch_size(head)
            position += batch_size(head)
        self.bytes_since_entry = <int32_t>min(since_entry, INT32_MAX)
        if self.is_settled:   # it is full or idle: nothing is staged
            self.max_timestamp = newest
            self.max_timestamp_offset = newest_at
            self.last_batch_offset = last_offset
            self.last_batch_position = last
            self.finish_index()
        return 0

    cdef void load_index(self, const char* path) noexcept:
        # Load the index if its file was searched often and the memory budget allows it.
        cdef int64_t wanted = index_wants_memory(&self.index)
        if wanted == 0:
            return
        self.files.release_memory(index_unload(&self.index))
        if self.files.reserve_memory(wanted) and index_load(&self.index, path) == 0:
            self.files.release_memory(wanted)

    cdef int64_t boundary(self, int64_t position, int64_t size_max, int64_t end) noexcept:
        """Return the end of the last whole batch within `size_max` bytes, at most `end`; or -errno.

        `end` must be the end of a batch. Equals `position` when not even one batch fits.
        """
        cdef char path[PATH_SIZE]
        cdef HeaderWindow window
        cdef const uint8_t* head
        cdef int64_t reached = position, size
        cdef int32_t indexed
        if position + size_max >= end:
            return end
        if size_max > STEPPED_MAX:
            self.path(path, b".index")
            reached = index_floor_position(&self.index, path, position + size_max, &indexed)
            if reached > position and indexed >= 0 and not self.has_batch(reached, indexed):
                reached = self.rebuild_index() if self.damaged is None else position
                if reached < 0:
                    return reached
            if reached < position:
                reached = position
        window_open(&window, self.fd, WINDOW_SIZE)
        while reached < end:
            head = header_at(&window, reached, BATCH_LENGTH_END)
            if head == NULL:
                return window.status
            size = batch_size(head)
            if size == 0:
                return NO_BATCH
            if reached + size > position + size_max:
                break
            reached += size
        return reached

    cdef int64_t offset_at(self, int64_t position) noexcept nogil:
        """Return the base offset of the batch at a position, or -errno."""
        cdef uint8_t offset[8]
        cdef ssize_t size = file_pread(self.fd, offset, sizeof(offset), position)
        if size < 0:
            return size
        return load_int64(offset) if size == sizeof(offset) else NO_BATCH

    cdef void remember(self, int64_t offset, int64_t position) noexcept nogil:
        """Keep the position where a reader stopped: its next read most likely begins there."""
        self.hints[self.next_hint].offset = offset
        self.hints[self.next_hint].position = position
        self.next_hint = (self.next_hint + 1) % READ_HINTS
