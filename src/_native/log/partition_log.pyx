"""The hot state of one partition: its segments, ends and producers.

    log start offset <= high watermark <= durable end (group-commit) <= log end offset

An append takes the next offsets, goes to the active segment's file (small batches staged until the
turn of the loop ends, then one write for all of them) and makes the log dirty. `flush` at the end
of the turn writes what is staged. What an acknowledgement waits for depends on the durability word:

    os            the high watermark follows the write: the page cache has the bytes
    group-commit  the commit thread syncs the file; when it has, everything appended before the
                  sync began is durable, and the high watermark follows to there

A failed write or sync takes the log offline for good: what the page cache still shows may not be on
the disk, so nothing of it may be acknowledged (reliability.md 5.1). Nothing is ever retried.

A roll opens the next segment at once; the sealed file's tail is cut and the old file, the new file
and the folder are synced by the same job that makes the first batch of the new one durable.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.errno cimport EMFILE, ENFILE
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, strerror
from posix.fcntl cimport O_DIRECTORY, O_RDONLY

from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.file_ops cimport (
    file_close,
    file_open,
    file_pread,
)
from broker._native.log.producer_state cimport (
    SEQUENCE_NEXT,
    ProducerBatch,
    SequenceStatus,
    producers_check,
    producers_free,
    producers_init,
    producers_snapshot,
    producers_update,
    sequence_add,
)
from broker._native.log.segment cimport Segment
from broker._native.log.time_lookup cimport find_time
from broker._native.log.turn cimport (
    EVENT_OFFLINE,
    EVENT_ROLLED,
    LOG_LOADING,
    LOG_OFFLINE,
    LOG_OK,
    LOG_OUT_OF_RANGE,
    AwaitedLog,
    LogStatus,
    Turn,
)
from broker._native.records.record_batch cimport (
    BATCH_OK,
    BatchInfo,
    BatchStatus,
    batch_assign,
    batch_header,
    batch_validate,
)

import logging
import os

from broker.model import limits
from broker.model.errors import StorageError

logger = logging.getLogger(__name__)

cdef size_t STAGED_BATCH_BYTES_MAX = limits.STAGED_BATCH_BYTES_MAX
cdef size_t STAGED_BYTES_MAX = limits.STAGED_BYTES_MAX
cdef uint32_t STAGED_BYTES_KEPT = limits.STAGED_BYTES_KEPT


@cython.final
cdef class PartitionLog(AwaitedLog):
    """One partition's log. Created empty and closed; `open` makes it usable."""

    def __cinit__(self, Turn turn, str topic, bytes topic_id, int32_t partition, str folder, *,
                  bint is_group_commit=True, int64_t segment_bytes_max=1 << 30,
                  int64_t segment_ms=7 * 24 * 3600 * 1000,
                  int32_t batch_bytes_max=limits.MESSAGE_BYTES_MAX,
                  int32_t index_interval_bytes=limits.INDEX_INTERVAL_BYTES,
                  uint32_t producer_ids_max=limits.PRODUCER_IDS_PER_PARTITION_MAX,
                  int64_t producer_expiration_ms=24 * 3600 * 1000, bint is_plain=True,
                  int64_t behind_ms_max=INT64_MAX, int64_t ahead_ms_max=INT64_MAX):
        self.turn = turn
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.folder = folder
        self.folder_path = os.fsencode(folder)
        self.segments = []
        self.epochs = []
        self.unsealed = []
        self.unsynced_indexes = []
        self.is_group_commit = is_group_commit
        self.is_plain = is_plain
        self.behind_ms_max = behind_ms_max
        self.ahead_ms_max = ahead_ms_max
        self.segment_ms = segment_ms
        self.batch_bytes_max = batch_bytes_max
        self.segment_bytes_max = segment_bytes_max
        self.index_interval_bytes = index_interval_bytes
        producers_init(&self.producers, producer_ids_max, producer_expiration_ms)
        self.job.owner = <void*>self

    def __dealloc__(self):
        producers_free(&self.producers)
        free(self.staged)

    def __repr__(self):
        return f"<PartitionLog {self.topic}-{self.partition} [{self.log_start_offset}, " \
               f"{self.log_end_offset}) high watermark {self.high_watermark}>"

    # ---- append -------------------------------------------------------------------------------

    cdef SequenceStatus check_sequence(self, BatchInfo* info, ProducerBatch* duplicate) noexcept:
        """What an idempotent producer's batch is to this log; others are always next."""
        if info.producer_id < 0:
            return SEQUENCE_NEXT
        return producers_check(
            &self.producers, info.producer_id, info.producer_epoch, info.base_sequence,
            info.record_count, self.turn.now_ms, duplicate)

    cdef bint accepts_times(self, BatchInfo* info) noexcept:
        """Whether a batch's timestamps are as near to now as the topic asks (KIP-937)."""
        cdef int64_t now_ms = self.turn.now_ms
        if info.base_timestamp == -1:
            return True
        # The client's numbers may be any: nothing is computed that could overflow.
        return info.base_timestamp >= now_ms - self.behind_ms_max and (
            info.max_timestamp < now_ms or info.max_timestamp - now_ms <= self.ahead_ms_max)

    cdef LogStatus append_batch(self, uint8_t* batch, BatchInfo* info,
                                int64_t* base_offset) noexcept:
        """Append one validated batch; its base offset and leader epoch are patched in place."""
        cdef Segment segment = self.active
        cdef int status
        if self.is_loading:
            return LOG_LOADING
        if self.is_offline or self.is_deleted:
            return LOG_OFFLINE
        status = segment.open(False)
        if status == 0 and self.must_roll(info):
            status = self.roll()
            segment = self.active
        if status < 0:
            # Without a descriptor nothing has been written, and the next append may have one.
            if status != -EMFILE and status != -ENFILE:
                self.fail(status)
            return LOG_OFFLINE
        base_offset[0] = self.log_end_offset
        batch_assign(batch, self.log_end_offset, self.leader_epoch)
        status = self.put(segment, batch, info.size)
        if status < 0:
            self.fail(status)
            return LOG_OFFLINE
        if segment.created_ms == 0:
            segment.created_ms = self.turn.now_ms
        segment.note(info, self.log_end_offset, self.index_interval_bytes)
        self.remember_producer(info, self.log_end_offset)
        self.log_end_offset += <int64_t>info.last_offset_delta + 1
        if not self.is_dirty:
            self.is_dirty = True
            self.turn.dirty.append(self)
            self.turn.request_end()
        return LOG_OK

    cdef bint must_roll(self, BatchInfo* info) noexcept:
        cdef Segment segment = self.active
        if segment.size == 0:
            return False
        if segment.size + <int64_t>info.size > self.segment_bytes_max:
            return True
        if self.log_end_offset + info.last_offset_delta - segment.base_offset > INT32_MAX:
            return True
        return segment.created_ms > 0 and (
            self.turn.now_ms - segment.created_ms > self.segment_ms)

    cdef int put(self, Segment segment, const uint8_t* batch, size_t size) noexcept:
        # Small batches wait for the end of the turn and share one write.
        cdef int status
        cdef uint32_t capacity
        cdef void* grown
        if size > STAGED_BATCH_BYTES_MAX or self.staged_size + size > STAGED_BYTES_MAX:
            status = self.write_staged()
            if status < 0:
                return status
            if size > STAGED_BATCH_BYTES_MAX:
                return segment.write(batch, size)
        if self.staged_size + size > self.staged_capacity:
            capacity = self.staged_capacity if self.staged_capacity > 0 else STAGED_BYTES_KEPT
            while capacity < self.staged_size + size:
                capacity *= 2
            grown = realloc(self.staged, capacity)
            if grown == NULL:
                return -12  # ENOMEM
            self.staged = <uint8_t*>grown
            self.staged_capacity = capacity
        memcpy(self.staged + self.staged_size, batch, size)
        self.staged_size += <uint32_t>size
        return 0

    cdef int write_staged(self) noexcept:
        cdef int status
        if self.staged_size == 0:
            return 0
        status = self.active.write(self.staged, self.staged_size)
        self.staged_size = 0
        return status

    cdef void remember_producer(self, BatchInfo* info, int64_t base_offset) noexcept:
        cdef ProducerBatch batch
        if info.producer_id < 0 or info.base_sequence < 0 or info.record_count <= 0:
            return  # also of a transaction's marker: it has a producer, and no sequence
        batch.first_sequence = info.base_sequence
        batch.last_sequence = sequence_add(info.base_sequence, info.record_count - 1)
        batch.base_offset = base_offset
        batch.last_offset_delta = info.last_offset_delta
        batch.timestamp = info.max_timestamp
        # There is room: check_sequence has seen to it. During recovery those found first have it.
        producers_update(&self.producers, info.producer_id, info.producer_epoch, &batch,
                         self.turn.now_ms)

    cdef int roll(self) noexcept:
        # The old file is cut and synced by the next job; until then it stays in `unsealed`.
        cdef Segment segment
        cdef int status = self.write_staged()
        if status < 0:
            return status
        self.active.finish_index()
        segment = Segment(self.folder_path, self.log_end_offset)
        status = segment.open(True)
        if status < 0:
            return status
        self.unsealed.append(self.active)
        self.unsynced_indexes.append(self.active)
        self.segments.append(segment)
        self.active = segment
        self.turn.events.append((EVENT_ROLLED, self))
        return 0

    # ---- the end of a turn: write, sync, advance ----------------------------------------------

    cdef void flush(self) noexcept:
        """Write what is staged; then advance, or have the commit thread sync."""
        cdef int status
        self.is_dirty = False
        if self.is_offline or self.is_deleted:
            return
        status = self.write_staged()
        if self.staged_capacity > STAGED_BYTES_KEPT:
            free(self.staged)
            self.staged = NULL
            self.staged_capacity = 0
        if status < 0:
            self.fail(status)
            return
        if not self.is_group_commit:
            self.advance(self.log_end_offset, self.active, self.active.written,
                         self.active.max_timestamp)
        if not self.job_is_running and (self.is_group_commit or self.unsealed):
            self.start_sync()

    cdef void start_sync(self) noexcept:
        # One job in flight per log; all appended before it starts becomes durable together.
        cdef Segment sealed
        cdef int status = 0
        self.job.fds[0] = self.active.fd
        self.job.fds[1] = self.job.fds[2] = -1
        self.job.is_folder[0] = self.job.is_folder[1] = self.job.is_folder[2] = 0
        self.job.truncate_to = -1
        self.job.target = self.log_end_offset
        self.job_segment = self.active
        self.job_position = self.active.written
        self.job_max_timestamp = self.active.max_timestamp
        if self.unsealed:
            sealed = <Segment>self.unsealed[0]
            self.job.fds[0] = sealed.fd
            self.job.truncate_to = sealed.written
            # A file's name must be on the disk before its bytes can count.
            status = self.sync_folder_too()
            if PyList_GET_SIZE(self.unsealed) == 1:
                self.job.fds[1] = self.active.fd
            else:
                # Several full segments: one after the other, this job proves only the first.
                self.job.target = self.segment_after(sealed).base_offset
                self.job_segment = sealed
                self.job_position = sealed.written
                self.job_max_timestamp = sealed.max_timestamp
        if status < 0:
            self.close_folder()
            self.fail(status)
            return
        self.job_is_running = True
        Py_INCREF(self)  # the job points here until `synced`
        self.turn.commit.submit(&self.job)

    cdef int sync_folder_too(self) noexcept:
        self.job.fds[2] = file_open(self.folder_path, O_RDONLY | O_DIRECTORY, 0)
        self.job.is_folder[2] = 1
        return self.job.fds[2]

    cdef void close_folder(self) noexcept:
        if self.job.fds[2] >= 0:
            file_close(self.job.fds[2])

    cdef void synced(self) noexcept:
        """The job has ended: everything it covered is durable, or the log is lost to us."""
        cdef Segment sealed
        self.job_is_running = False
        self.close_folder()
        if self.is_offline or self.is_deleted:
            return
        if self.job.result < 0:
            self.fail(self.job.result)
            return
        if self.job.truncate_to >= 0:
            sealed = <Segment>self.unsealed.pop(0)
            sealed.reserved = sealed.written
        if self.job.target > self.durable_end:
            self.durable_end = self.job.target
        if self.is_group_commit:
            self.advance(self.durable_end, self.job_segment, self.job_position,
                         self.job_max_timestamp)
        # What is staged is in no file yet: then the end of the turn starts the next sync.
        if self.staged_size == 0 and (self.unsealed or (
                self.is_group_commit and self.durable_end < self.log_end_offset)):
            self.start_sync()

    cdef void advance(self, int64_t high_watermark, Segment segment, int64_t position,
                      int64_t max_timestamp) noexcept:
        # Move the high watermark, and where it stands in the files.
        if high_watermark <= self.high_watermark:
            return
        self.visible_segment = segment
        self.visible_position = position
        self.visible_max_timestamp = max_timestamp
        self.reach(high_watermark)

    cdef void fail(self, int error) noexcept:
        """Take the log offline for good and tell everyone who waits for it."""
        if self.is_offline:
            return
        self.is_offline = True
        logger.error("log offline topic=%s partition=%d folder=%s error=%s: writes to it are "
                     "refused until the broker restarts on a working disk", self.topic,
                     self.partition, self.folder, (<bytes>strerror(-error)).decode())
        self.let_go()
        self.turn.events.append((EVENT_OFFLINE, self))

    cdef void let_go(self) noexcept:
        self.staged_size = 0
        AwaitedLog.let_go(self)

    def take_offline(self, str reason):
        """Refuse everything from here on: the log's files cannot be used."""
        logger.error("log offline topic=%s partition=%d folder=%s error=%s", self.topic,
                     self.partition, self.folder, reason)
        self.is_offline = True
        self.let_go()

    def retire(self):
        """The partition is deleted: refuse everything from here on, and wake who waits."""
        self.is_deleted = True
        self.let_go()

    # ---- read ---------------------------------------------------------------------------------

    cdef Segment segment_of(self, int64_t offset):
        # The last segment whose base offset is not above the offset.
        cdef Py_ssize_t low = 0, high = PyList_GET_SIZE(self.segments), middle
        if offset >= self.active.base_offset:
            return self.active
        while low < high:
            middle = (low + high) // 2
            if (<Segment>PyList_GET_ITEM(self.segments, middle)).base_offset <= offset:
                low = middle + 1
            else:
                high = middle
        return <Segment>PyList_GET_ITEM(self.segments, low - 1 if low > 0 else 0)

    cdef Segment segment_after(self, Segment segment):
        cdef Py_ssize_t place = self.segments.index(segment) + 1
        return <Segment>self.segments[place] if place < len(self.segments) else None

    cdef LogStatus slice(self, int64_t offset, int64_t size_max, bint at_least_one,
                         LogSlice* found, PyObject** owner) noexcept:
        """Find the whole batches from an offset on, in one segment, up to the high watermark.

        `owner` receives a new reference to the Segment they lie in, whose file is open, when
        found.size > 0. At least one batch whatever its size when `at_least_one`.
        """
        cdef Segment segment
        cdef int64_t position, end, last
        found.size = 0
        found.next_offset = -1
        owner[0] = NULL
        if self.is_loading:
            return LOG_LOADING
        if self.is_offline or self.is_deleted:
            return LOG_OFFLINE
        if offset < self.log_start_offset or offset > self.log_end_offset:
            return LOG_OUT_OF_RANGE
        if offset >= self.high_watermark:
            return LOG_OK
        segment = self.segment_of(offset)
        while True:
            if segment.open(False) < 0:
                return LOG_OFFLINE
            end = self.visible_position if segment is self.visible_segment else segment.written
            position = segment.locate(offset)
            if position < 0:
                self.fail(<int>position)
                return LOG_OFFLINE
            if position < end:
                break
            if segment is self.visible_segment:
                return LOG_OK
            segment = self.segment_after(segment)
            if segment is None:
                return LOG_OK
        last = segment.boundary(position, size_max, end)
        if last == position and at_least_one:
            last = segment.batch_end(position)
        if last < 0:
            self.fail(<int>last)
            return LOG_OFFLINE
        if last == position:
            return LOG_OK
        found.position = position
        found.size = last - position
        # A reader goes on where this slice ends: found by a short read now, not by a search then.
        if last < end:
            found.next_offset = segment.offset_at(last)
        elif segment is self.visible_segment:
            found.next_offset = self.high_watermark
        if found.next_offset >= 0:
            segment.remember(found.next_offset, last)
        owner[0] = <PyObject*>segment
        Py_INCREF(segment)
        return LOG_OK

    cdef int64_t visible_bytes(self, int64_t offset) noexcept:
        """About how many bytes a fetch from an offset could return: exact on the last segment.

        What cannot be read counts as plenty: the fetch is answered at once and says so.
        """
        cdef Segment segment
        cdef int64_t position
        if offset >= self.high_watermark or self.is_offline:
            return 0
        segment = self.segment_of(offset)
        if segment is not self.visible_segment or segment.open(False) < 0:
            return self.segment_bytes_max
        position = segment.locate(offset)
        return self.visible_position - position if position >= 0 else self.segment_bytes_max

    @property
    def last_stable_offset(self):
        """First offset of the earliest open transaction, else the high watermark."""
        return self.high_watermark

    @property
    def size(self):
        """Bytes of log in all segments, without what is only reserved."""
        return sum((<Segment>segment).size for segment in self.segments)

    @property
    def segment_base_offsets(self):
        """Base offsets of the segments, oldest first."""
        return [(<Segment>segment).base_offset for segment in self.segments]

    def read(self, int64_t offset, int64_t size_max, bint at_least_one=True):
        """Return whole batches from an offset on as bytes; b"" at the high watermark.

        Raises IndexError outside of [log start offset, log end offset], StorageError offline.
        """
        cdef LogSlice found
        cdef PyObject* owner
        cdef ssize_t size
        cdef bytes data
        cdef Segment segment
        cdef LogStatus status = self.slice(offset, size_max, at_least_one, &found, &owner)
        if status == LOG_OUT_OF_RANGE:
            raise IndexError(f"offset {offset} of {self!r}")
        if status != LOG_OK:
            raise StorageError(f"{self!r} is {'loading' if self.is_loading else 'offline'}")
        if found.size == 0:
            return b""
        segment = <Segment>owner
        Py_DECREF(segment)
        data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>found.size)
        size = file_pread(segment.fd, PyBytes_AS_STRING(data), <size_t>found.size,
                          found.position)
        if size != found.size:
            self.fail(<int>size if size < 0 else -5)
            raise StorageError(f"{self!r}: read {size} of {found.size} bytes")
        return data

    # ---- Python's append ----------------------------------------------------------------------

    def append(self, bytes records):
        """Append what a client sent for this partition.

        Returns (status, base offset): status is 0, or ("batch" | "sequence" | "log", number) with
        the BatchStatus, SequenceStatus or LogStatus that refused it, or ("duplicate", end offset)
        for a batch that is already there, whose original base offset is returned.
        """
        cdef BatchInfo info
        cdef ProducerBatch original
        cdef int64_t base_offset = -1
        cdef BatchStatus checked = batch_validate(
            <const uint8_t*>PyBytes_AS_STRING(records), PyBytes_GET_SIZE(records), &info)
        cdef SequenceStatus sequence
        cdef LogStatus status
        if checked != BATCH_OK:
            return ("batch", checked), -1
        if <int64_t>info.size > self.batch_bytes_max:
            return ("size", self.batch_bytes_max), -1
        sequence = self.check_sequence(&info, &original)
        if sequence == 1:  # SEQUENCE_DUPLICATE
            return ("duplicate", original.base_offset + original.last_offset_delta + 1), (
                original.base_offset)
        if sequence != SEQUENCE_NEXT:
            return ("sequence", sequence), -1
        copy = bytearray(records)
        status = self.append_batch(<uint8_t*><char*>copy, &info, &base_offset)
        return (0, base_offset) if status == LOG_OK else (("log", status), -1)

    def append_internal(self, bytes batch):
        """Append a batch of the broker's own and return its base offset.

        Raises StorageError when the log is offline.
        """
        cdef BatchInfo info
        cdef Cursor cursor
        cdef int64_t base_offset = -1
        copy = bytearray(batch)
        cursor.next = <const uint8_t*><char*>copy
        cursor.left = len(copy)
        if batch_header(&cursor, &info) != BATCH_OK or cursor.left > 0 or (
                info.last_offset_delta < 0):
            raise ValueError("append_internal takes exactly one batch of version 2, not empty")
        if self.append_batch(<uint8_t*><char*>copy, &info, &base_offset) != LOG_OK:
            raise StorageError(f"{self!r} is {'loading' if self.is_loading else 'offline'}")
        return base_offset

    # ---- what storage reads and sets ----------------------------------------------------------

    def sync_indexes(self):
        """Make the indexes of full segments durable, from any thread: a start after a crash does
        not read those segments again. Raises StorageError when it fails.
        """
        cdef Segment segment
        cdef int status
        for segment in list(self.unsynced_indexes):
            with nogil:
                status = segment.sync_index()
            if status < 0:
                raise StorageError(f"{self.folder}: cannot sync an index: "
                                   f"{(<bytes>strerror(-status)).decode()}")
            self.unsynced_indexes.remove(segment)

    @property
    def has_unsynced_indexes(self):
        """Whether `sync_indexes` has something to do."""
        return len(self.unsynced_indexes) > 0

    @property
    def epoch_entries(self):
        """The leader epochs as (epoch, start offset), oldest first."""
        return list(self.epochs)

    def start_epoch(self, int32_t epoch):
        """Append from here on under a new leader epoch; the caller has made it durable first."""
        if self.epochs and self.epochs[-1][0] >= epoch:
            raise ValueError(f"epoch {epoch} of {self!r} is not above {self.epochs[-1][0]}")
        self.epochs.append((epoch, self.log_end_offset))
        self.leader_epoch = epoch

    def epoch_end(self, int32_t epoch):
        """Return (largest epoch <= the asked one, its end offset), or (-1, -1) when unknown."""
        if epoch == self.leader_epoch:
            return epoch, self.log_end_offset
        found = (-1, -1)
        for i, (known, start) in enumerate(self.epochs):
            if known > epoch:
                break
            end = self.epochs[i + 1][1] if i + 1 < len(self.epochs) else self.log_end_offset
            found = (known, end)
        return found if epoch < self.leader_epoch else (-1, -1)

    def producer_snapshot(self):
        """Return (log end offset, content of the `.snapshot` file of that name)."""
        return self.log_end_offset, producers_snapshot(&self.producers)

    @property
    def producer_count(self):
        """How many producers the log remembers."""
        return self.producers.count

    def find_timestamp(self, int64_t timestamp):
        """Return (offset, timestamp) of the first record at least as new, or None (KIP-79)."""
        return find_time(self.segments, timestamp, self.log_start_offset, self.high_watermark,
                         self.read, self.turn)

    def find_max_timestamp(self):
        """Return (offset, timestamp) of the first of the newest records, or None (KIP-734)."""
        cdef Segment segment
        cdef int64_t newest = self.visible_max_timestamp
        for segment in self.segments:
            if segment is self.visible_segment:
                break
            newest = max(newest, segment.max_timestamp)
        return self.find_timestamp(newest) if newest >= 0 else None
