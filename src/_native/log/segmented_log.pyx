"""A log's segments for readers: finds them by offset, removes the oldest, replaces compacted ones.

    log start offset <= high watermark <= log end offset

The high watermark is at one position in one segment (`visible_segment`); nothing from there on is
readable. The log start offset may be within a segment: batches before it are still in the file and
are not returned. A segment that ends at or before it is removed from the log, and its files can be
deleted: a reader of one of them has its descriptor and can continue.

Compaction replaces sealed segments by one with the same offsets, some of which are then missing.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EIO
from libc.stdint cimport INT64_MAX, int32_t, int64_t
from libc.string cimport strerror

from broker._native.kernel.file_ops cimport file_pread
from broker._native.log.header_window cimport NO_BATCH
from broker._native.log.open_files cimport OpenFile
from broker._native.log.segment cimport Segment
from broker._native.log.time_lookup cimport find_time
from broker._native.log.transaction_index cimport (
    AbortedList,
    aborted_list_free,
    aborted_list_sort,
)
from broker._native.log.turn cimport (
    LOG_LOADING,
    LOG_OFFLINE,
    LOG_OK,
    LOG_OUT_OF_RANGE,
    AwaitedLog,
    LogStatus,
    is_transient,
)

import logging

from broker.model.errors import StorageError
from broker.model.log_results import LogEvent

logger = logging.getLogger(__name__)


cdef str reason_of(int error):
    """Return what a status below 0 means."""
    if error == NO_BATCH:
        return "no valid batch where one should be"
    return (<bytes>strerror(-error)).decode()


cdef int must(int status, SegmentedLog log, str what) except -1:
    """Raise StorageError for a status below 0."""
    if status < 0:
        raise StorageError(f"{log.folder}: {what}: {reason_of(status)}")
    return 0


cdef class SegmentedLog(AwaitedLog):
    """The segments of a log and its offsets; SyncedLog adds the writes."""

    def __cinit__(self):
        self.segments = []
        self.epochs = []

    cdef Segment new_segment(self, int64_t base_offset):
        cdef Segment segment = Segment(self.turn.files, self.folder_path, base_offset)
        segment.log = <PyObject*>self
        return segment

    # ---- find and read ------------------------------------------------------------------------

    cdef Py_ssize_t index_of(self, int64_t offset) noexcept:
        # Return the index of the last segment whose base offset is <= the offset; 0 without one.
        cdef Py_ssize_t low = 0, high = PyList_GET_SIZE(self.segments), middle
        while low < high:
            middle = (low + high) // 2
            if (<Segment>PyList_GET_ITEM(self.segments, middle)).base_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low > 0 else 0

    cdef Segment segment_of(self, int64_t offset):
        if offset >= self.active.base_offset:
            return self.active
        return <Segment>PyList_GET_ITEM(self.segments, self.index_of(offset))

    cdef Segment segment_after(self, Segment segment):
        cdef Py_ssize_t place = self.index_of(segment.base_offset) + 1
        if place >= PyList_GET_SIZE(self.segments):
            return None
        return <Segment>PyList_GET_ITEM(self.segments, place)

    cdef Segment segment_before(self, Segment segment):
        cdef Py_ssize_t place = self.index_of(segment.base_offset)
        return <Segment>PyList_GET_ITEM(self.segments, place - 1) if place > 0 else None

    cdef LogStatus slice(self, int64_t offset, int64_t end_offset, int64_t size_max,
                         bint at_least_one, LogSlice* found, PyObject** owner) noexcept:
        """Find the whole batches from an offset on, in one segment, up to the high watermark or up
        to `end_offset` below it, at which a batch must begin.

        `owner` receives a new reference to the OpenFile that has them, when found.size > 0. With
        `at_least_one`, the first batch is returned whatever its size.
        """
        cdef LogEnd limit = self.visible_end()
        cdef LogStatus status = self.slice_below(
            &limit, offset, end_offset, size_max, at_least_one, found, owner)
        self.bytes_out += <uint64_t>found.size
        return status

    cdef LogEnd visible_end(self) noexcept:
        cdef LogEnd end
        end.offset = self.high_watermark
        end.base_offset = self.visible_segment.base_offset
        end.position = self.visible_position
        end.max_timestamp = self.visible_max_timestamp
        return end

    cdef LogStatus slice_below(self, const LogEnd* limit, int64_t offset, int64_t end_offset,
                               int64_t size_max, bint at_least_one, LogSlice* found,
                               PyObject** owner) noexcept:
        # As `slice`, up to another end than the high watermark.
        cdef Segment segment
        cdef int64_t position, end, last, valid
        cdef int status
        end_offset = min(end_offset, limit.offset)
        found.size = 0
        found.next_offset = -1
        owner[0] = NULL
        if self.is_loading:
            return LOG_LOADING
        if self.storage_status() != LOG_OK:
            return self.storage_status()
        if offset < self.log_start_offset or offset > self.log_end_offset:
            return LOG_OUT_OF_RANGE
        if offset >= end_offset:
            return LOG_OK
        segment = self.segment_of(offset)
        while True:
            status = segment.open(False)
            if status < 0 or segment.file.error < 0:
                self.fail_unless_transient(status if status < 0 else segment.file.error)
                return LOG_OFFLINE
            end = self.end_position(segment, end_offset, limit)
            position = segment.locate(offset) if end >= 0 else end
            if position < 0:
                if self.marks_rest_damaged(segment, offset, <int>position):
                    continue
                return LOG_OFFLINE
            if segment.damaged is not None:
                # Damaged ranges are not returned, everything around them is.
                valid = segment.valid_end(max(offset, segment.base_offset), &end_offset)
                if valid < 0:
                    return LOG_OFFLINE
                end = min(end, valid)
            if position < end:
                last = segment.boundary(position, size_max, end)
                if last == position and at_least_one:
                    last = segment.batch_end(position)
                    if last > end:
                        last = NO_BATCH   # its length is beyond the segment's end
                if last >= 0:
                    break
                if self.marks_rest_damaged(segment, offset, <int>last):
                    continue
                return LOG_OFFLINE
            segment = self.segment_after(segment)
            if segment is None or segment.base_offset >= end_offset:
                return LOG_OK
        if last == position:
            return LOG_OK
        found.position = position
        found.size = last - position
        # The reader's next read begins where this slice ends: this short read saves it a lookup.
        if last < end:
            found.next_offset = segment.offset_at(last)
            if found.next_offset < 0:
                self.marks_rest_damaged(segment, offset, <int>found.next_offset)
                return LOG_OFFLINE
        else:
            found.next_offset = self.end_of(segment, end_offset)
        segment.remember(found.next_offset, last)
        owner[0] = <PyObject*>segment.file
        Py_INCREF(segment.file)
        return LOG_OK

    cdef int64_t end_of(self, Segment segment, int64_t end_offset) noexcept:
        # Return the offset where a segment ends for a reader that may read up to `end_offset`.
        cdef Segment following = self.segment_after(segment)
        return end_offset if following is None else min(end_offset, following.base_offset)

    cdef int64_t end_position(
            self, Segment segment, int64_t end_offset, const LogEnd* limit) noexcept:
        """Return the position where an open segment ends for a reader up to an offset; or -errno.

        `limit` is the end of all that may be read.
        """
        cdef int64_t end = (
            limit.position if segment.base_offset == limit.base_offset else segment.written)
        if end_offset >= limit.offset or self.end_of(segment, end_offset) < end_offset:
            return end
        return min(end, segment.locate(end_offset))

    cdef int64_t visible_bytes(self, int64_t offset, int64_t end_offset) noexcept:
        """Return about how many bytes a read from an offset could return."""
        cdef LogEnd limit = self.visible_end()
        return self.bytes_below(&limit, offset, end_offset)

    cdef int64_t bytes_below(
            self, const LogEnd* limit, int64_t offset, int64_t end_offset) noexcept:
        """Return about how many bytes there are from an offset up to another one, or to the end of
        all that may be read; exact on the last segment.

        When that cannot be read, the answer is large: the read then runs at once and reports the
        error.
        """
        cdef Segment segment
        cdef int64_t position, end
        if offset >= min(limit.offset, end_offset) or self.is_offline:
            return 0
        segment = self.segment_of(offset)
        if segment.base_offset != limit.base_offset or segment.open(False) < 0:
            return self.segment_bytes_max
        position = segment.locate(offset)
        end = self.end_position(segment, end_offset, limit)
        return end - position if position >= 0 and end >= 0 else self.segment_bytes_max

    @property
    def size(self):
        """Bytes of log in all segments, without preallocated tails."""
        cdef int64_t total = 0
        cdef Segment segment
        for segment in self.segments:
            total += segment.size
        return total

    def oldest_entries(self, Py_ssize_t at_most):
        """Return the `segment_entries` of at most so many of the oldest segments."""
        return [((<Segment>segment).base_offset, (<Segment>segment).size,
                 (<Segment>segment).max_timestamp) for segment in self.segments[:at_most]]

    @property
    def segment_count(self):
        """How many segments there are, including the active one."""
        return PyList_GET_SIZE(self.segments)

    @property
    def is_in_service(self):
        """Whether the log is loaded, and neither offline nor deleted."""
        return not (self.is_loading or self.is_offline or self.is_deleted)

    @property
    def segment_entries(self):
        """(base offset, bytes, largest timestamp) of the segments, oldest first; -1: no time."""
        return self.oldest_entries(PyList_GET_SIZE(self.segments))

    def read(self, int64_t offset, int64_t size_max, bint at_least_one=True,
             int64_t end_offset=INT64_MAX):
        """Return whole batches from an offset on as bytes; b"" at the high watermark, or at
        `end_offset` below it, at which a batch must begin.

        Raises IndexError outside of [log start offset, log end offset], StorageError offline.
        """
        cdef LogSlice found
        cdef PyObject* owner
        cdef LogStatus status = self.slice(offset, end_offset, size_max, at_least_one, &found,
                                           &owner)
        return self.take_slice(offset, status, &found, owner)

    cdef object take_slice(
            self, int64_t offset, LogStatus status, LogSlice* found, PyObject* owner):
        # Read what a slice from an offset on has found.
        cdef ssize_t size
        cdef bytes data
        cdef OpenFile file
        if status == LOG_OUT_OF_RANGE:
            raise IndexError(f"offset {offset} of {self!r}")
        if status != LOG_OK:
            raise StorageError(f"{self!r} is {'loading' if self.is_loading else 'offline'}"
                               if not self.is_in_service else
                               f"{self!r}: the records at offset {offset} are damaged")
        if found.size == 0:
            return b""
        file = <OpenFile>owner
        Py_DECREF(file)
        data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>found.size)
        size = file_pread(file.fd, PyBytes_AS_STRING(data), <size_t>found.size,
                          found.position)
        if size != found.size:
            self.fail(<int>size if size < 0 else -EIO)
            raise StorageError(f"{self!r}: read {size} of {found.size} bytes")
        return data

    def find_timestamp(self, int64_t timestamp):
        """Return (offset, timestamp) of the first record at least as new, or None (KIP-79)."""
        return find_time(self.segments, timestamp, self.log_start_offset, self.high_watermark,
                         self.read, self.turn)

    def time_at(self, int64_t offset):
        """Return the time of the batch that has an offset, or of the next one; -1: it is unknown.

        That is when it was appended, or, with times of producers, the time of its first record.
        Only headers are read, those of at most an index interval.
        """
        cdef Segment segment
        cdef int64_t time_ms = TIME_UNKNOWN
        offset = max(offset, self.log_start_offset)
        if self.is_loading or self.storage_status() != LOG_OK or offset >= self.high_watermark:
            return -1
        segment = self.segment_of(offset)
        while segment is not None and time_ms == TIME_UNKNOWN:
            time_ms = segment.time_at(offset)
            segment = self.segment_after(segment)
        return max(time_ms, -1)

    def find_max_timestamp(self):
        """Return (offset, timestamp) of the first of the newest records, or None (KIP-734)."""
        cdef Segment segment
        cdef int64_t newest
        if self.visible_max_timestamp == TIME_UNKNOWN:
            self.visible_max_timestamp = self.visible_segment.newest_before(
                self.high_watermark, self.visible_position)
        newest = self.visible_max_timestamp
        for segment in self.segments:
            if segment is self.visible_segment:
                break
            newest = max(newest, segment.max_timestamp)
        return self.find_timestamp(newest) if newest >= 0 else None

    def aborted_transactions(self, int64_t start, int64_t end):
        """Return (producer id, first offset, marker's offset) of the aborted transactions in
        [start, end), ordered by first offset. Raises StorageError when an index cannot be read.
        """
        cdef AbortedList found = [NULL, 0, 0]
        cdef size_t i
        cdef int status = self.find_aborted(start, end, &found)
        try:
            if status < 0:
                raise StorageError(f"{self!r}: cannot read an index of aborted transactions: "
                                   f"{reason_of(status)}")
            return [(found.entries[i].producer_id, found.entries[i].first_offset,
                     found.entries[i].last_offset) for i in range(found.count)]
        finally:
            aborted_list_free(&found)

    cdef int find_aborted(self, int64_t start, int64_t end, AbortedList* into) noexcept:
        """Add the aborted transactions that overlap [start, end), ordered by first offset, as
        clients expect. 0 or -errno. The caller frees the list.
        """
        cdef Py_ssize_t place
        cdef bint is_complete = False
        cdef int status
        for place in range(self.index_of(start), PyList_GET_SIZE(self.segments)):
            status = (<Segment>PyList_GET_ITEM(self.segments, place)).find_aborted(
                start, end, into, &is_complete)
            if status < 0:
                self.fail_unless_transient(status)
                return status
            if is_complete:
                break
        aborted_list_sort(into)
        return 0

    # ---- retention and compaction -------------------------------------------------------------

    def move_log_start(self, int64_t offset):
        """Raise the log start offset; a lower one than the present is ignored.

        Raises IndexError for an offset above the high watermark. The files stay until
        `drop_segments`.
        """
        if offset > self.high_watermark:
            raise IndexError(f"log start offset {offset} of {self!r}")
        if offset <= self.log_start_offset:
            return
        self.log_start_offset = offset
        # Epochs that ended before it are removed; the epoch at the offset begins with the log.
        while len(self.epochs) > 1 and self.epochs[1][1] <= offset:
            del self.epochs[0]
        if self.epochs and self.epochs[0][1] < offset:
            self.epochs[0] = (self.epochs[0][0], offset)
        self.wake_all()

    cdef bint may_drop(self, Segment segment) noexcept:
        # The last bytes of the active segment may not be on the disk yet.
        return segment is not self.active

    cdef void step_visible(self) noexcept:
        # A high watermark at the end of a sealed segment is also at the start of the next one.
        cdef Segment following
        while self.visible_segment is not self.active:
            following = self.segment_after(self.visible_segment)
            if following.base_offset > self.high_watermark:
                break
            self.visible_segment = following
            self.visible_position = 0
            self.visible_max_timestamp = -1

    def drop_segments(self, Py_ssize_t at_most):
        """Remove segments that end at or before the log start offset from the log, some per call.

        Returns their base offsets; the caller deletes the files. The active segment stays, and so
        does one that is not wholly on the disk yet.
        """
        cdef Segment segment, following
        cdef Py_ssize_t count = 0
        cdef list taken = []
        self.step_visible()
        at_most = min(at_most, PyList_GET_SIZE(self.segments) - 1)
        while count < at_most:
            segment = <Segment>PyList_GET_ITEM(self.segments, count)
            following = <Segment>PyList_GET_ITEM(self.segments, count + 1)
            if following.base_offset > self.log_start_offset or not self.may_drop(segment):
                break
            segment.close()
            taken.append(segment.base_offset)
            count += 1
        del self.segments[:count]
        return taken

    def can_replace(self, list old not None):
        """Return whether these are the base offsets of adjacent segments, all sealed and synced."""
        cdef Py_ssize_t first = self.index_of(old[0])
        cdef list there = self.segments[first:first + len(old)]
        self.step_visible()
        return [(<Segment>one).base_offset for one in there] == old and all(
            self.may_replace(<Segment>one) for one in there)

    def replace(self, list old, new):
        """Replace segments by one whose files already have their final names.

        `old` are the base offsets of adjacent segments, all sealed and synced; `new` is the base
        offset of the first of them, or None when no record is left of them. Raises StorageError
        when the new file cannot be opened, and then changes nothing.
        """
        cdef Py_ssize_t first = self.index_of(old[0])
        cdef Segment segment
        cdef int status
        cdef list there = self.segments[first:first + len(old)]
        if not self.can_replace(old):
            raise ValueError(f"{self!r} has no sealed segments {old} side by side")
        if new is not None and new != old[0]:
            raise ValueError(f"segment {new} cannot replace {old}")
        replacement = []
        if new is not None:
            segment = self.new_segment(new)
            status = segment.attach()
            if status == 0 and not segment.has_aborted:
                status = -EIO
            must(status, self, "cannot open a compacted segment")
            replacement = [segment]
        for segment in there:
            segment.close()
        self.segments[first:first + len(old)] = replacement
        self.wake()

    cdef bint may_replace(self, Segment segment) noexcept:
        # Above the high watermark, a follower's records may still be cut off.
        return segment.is_settled and segment.base_offset < self.visible_segment.base_offset and (
            self.may_drop(segment))

    def mark_damaged(self, int64_t base_offset, list ranges not None):
        """Refuse reads of a sealed segment's records in these ranges, which replace earlier ones.

        A range is (offset, end offset, position, end position) of damaged records and bytes.
        Returns False, and changes nothing, when no sealed segment has this base offset any more.
        """
        cdef Segment segment = self.segment_of(base_offset)
        if segment.base_offset != base_offset or segment is self.active:
            return False
        segment.set_damaged(ranges)
        self.wake()
        return True

    def damages_of(self, int64_t base_offset):
        """Return a segment's damaged ranges, in the form of `mark_damaged`."""
        cdef Segment segment = self.segment_of(base_offset)
        return list(segment.damaged or ()) if segment.base_offset == base_offset else []

    @property
    def damaged_ranges(self):
        """The (offset, end offset) of all damaged ranges, ascending."""
        cdef Segment segment
        return [(first, end) for segment in self.segments for first, end, _, _
                in segment.damaged or ()]

    @property
    def first_damage(self):
        """The first damaged offset that is not deleted; None: all is whole."""
        cdef Segment segment
        for segment in self.segments:
            if segment.damaged is not None:
                for first, end, _, _ in segment.damaged:
                    if end > self.log_start_offset:
                        return max(first, self.log_start_offset)
        return None

    cdef bint marks_rest_damaged(self, Segment segment, int64_t offset, int error) noexcept:
        """Mark the rest of a sealed segment as damaged, from where its headers are invalid for a
        reader at an offset; return whether the reader may retry. The log goes offline for any
        other error.

        The handler of LogEvent.BROKEN then checks how much of it is damaged.
        """
        cdef int64_t position, first = 0, end
        cdef tuple found
        if error != NO_BATCH or segment is self.active:
            self.fail(error)
            return False
        position = segment.broken_at(offset, &first)
        end = max(self.segment_after(segment).base_offset, first + 1)
        found = (first, end, position, segment.written)
        if position < 0 or position >= segment.written or found in (segment.damaged or ()):
            self.fail(<int>position if position < 0 else error)
            return False
        segment.set_damaged([*(segment.damaged or ()), found])
        logger.error("segment broken topic=%s partition=%d folder=%s base_offset=%d bytes=%d..%d "
                     "offsets=%d..%d: these records are refused, all others are served",
                     self.topic, self.partition, self.folder, segment.base_offset, position,
                     segment.written, first, end)
        self.turn.events.append((LogEvent.BROKEN, self))
        return True

    # ---- ends ---------------------------------------------------------------------------------

    cdef void advance(self, int64_t high_watermark, Segment segment, int64_t position,
                      int64_t max_timestamp) noexcept:
        # Move the high watermark, and its segment and position.
        if high_watermark <= self.high_watermark:
            return
        self.visible_segment = segment
        self.visible_position = position
        self.visible_max_timestamp = max_timestamp
        self.reach(high_watermark)

    cdef bint find_place(self, int64_t offset, LogEnd* place) noexcept:
        """Find where in the files the batches below an offset end; False if that cannot be read.

        A batch must begin at the offset, and all batches below it must be in a file.
        """
        cdef Segment segment = self.segment_of(offset)
        cdef int64_t position = segment.open(False)
        if position == 0:
            position = segment.locate(offset)
        if position < 0:
            self.fail_unless_transient(<int>position)
            return False
        place.offset = offset
        place.base_offset = segment.base_offset
        place.position = position
        place.max_timestamp = TIME_UNKNOWN if position > 0 else -1
        return True

    cdef void fail_unless_transient(self, int error) noexcept:
        """Take the log offline, except for a lack of descriptors or memory, which is transient."""
        if not is_transient(error):
            self.fail(error)

    cdef void fail(self, int error) noexcept:
        if self.end_service():
            self.report_offline(f"{reason_of(error)}: writes to it are refused until the broker "
                                "restarts on a working disk")

    cpdef void take_offline(self, str reason) noexcept:
        """Refuse all requests until a restart, and fail the waiters: the files cannot be used."""
        if self.end_service():
            self.report_offline(reason)

    cpdef bint end_service(self) noexcept:
        """Go offline without a line in the log; return whether this log was online.

        This comes before anything that can raise, as a text or a log handler can: a failed sync
        would be retried, and its batches acknowledged.
        """
        if self.is_offline:
            return False
        self.is_offline = True
        self.turn.log_changes += 1
        self.fail_waiters()
        self.turn.events.append((LogEvent.OFFLINE, self))
        return True

    cdef void report_offline(self, str reason) noexcept:
        logger.error("log offline topic=%s partition=%d folder=%s error=%s", self.topic,
                     self.partition, self.folder, reason)

    # ---- leader epochs ------------------------------------------------------------------------

    @property
    def epoch_entries(self):
        """The leader epochs as (epoch, start offset), oldest first."""
        return list(self.epochs)

    def start_epoch(self, int32_t epoch):
        """Append with a new leader epoch from here on; the caller has made it durable first."""
        if self.epochs and self.epochs[-1][0] >= epoch:
            raise ValueError(f"epoch {epoch} of {self!r} is not above {self.epochs[-1][0]}")
        self.begin_epoch(epoch, self.log_end_offset)

    cdef void begin_epoch(self, int32_t epoch, int64_t offset) noexcept:
        # A first epoch without batches is forgotten: of what was before this one nothing is known.
        # (A log that was begun anew has such an entry: it must not tell a follower that an epoch
        # that old ends here, because what the follower has of later ones may be right.)
        if PyList_GET_SIZE(self.epochs) == 1 and self.epochs[0][1] == offset:
            self.epochs.clear()
        self.epochs.append((epoch, offset))
        self.leader_epoch = epoch
        self.turn.log_changes += 1

    def epoch_end(self, int32_t epoch):
        """Return (largest epoch <= the asked one, its end offset), or (-1, -1) when unknown.

        An epoch older than all that the log still has ends at the log's start, as in Kafka: a
        reader that has read up to there has lost nothing.
        """
        if epoch == self.leader_epoch:
            return epoch, self.log_end_offset
        found = (-1, -1)
        for i, (known, start) in enumerate(self.epochs):
            if known > epoch:
                if i == 0 and epoch >= 0:
                    found = (epoch, start)
                break
            end = self.epochs[i + 1][1] if i + 1 < len(self.epochs) else self.log_end_offset
            found = (known, end)
        return found if epoch < self.leader_epoch else (-1, -1)
