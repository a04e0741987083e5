"""The state of one partition in memory: its segments, offsets and producers.

    log start offset <= high watermark <= durable end (group-commit) <= log end offset

An append assigns the next offsets, adds the batch to the active segment (small batches are staged
until the end of the loop's turn, then written together) and makes the log dirty. `flush` at the end
of the turn writes what is staged. What an acknowledgement waits for depends on the durability
setting:

    os            the write: the page cache has the bytes, and the high watermark advances
    group-commit  a sync by the commit thread: everything appended before the sync began is then
                  durable, and the high watermark advances to there

A failed write or sync takes the log offline until a restart: what the page cache still has may not
be on the disk, so nothing of it may be acknowledged (docs/durability.md). No sync is ever retried.

A full disk is not a failure. An append that finds it full is refused and has changed nothing.
Staged batches already have their offsets, so they stay staged (`is_full`): they are not visible,
appends are refused, and the write is retried after Turn.retry_full. While little space is left
(Turn.is_tight), disk space is allocated before a batch is accepted, so that this does not happen.

A roll opens the next segment at once. The same job that makes the first batch of the new segment
durable truncates the preallocated tail of the old file and syncs the old file, the new file and the
folder.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.ref cimport Py_INCREF
from libc.errno cimport EMFILE, ENOENT
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy, strerror
from posix.fcntl cimport O_DIRECTORY, O_RDONLY

from broker._native.kernel.checksum cimport crc32c_extend
from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.file_ops cimport (
    file_close,
    file_is_removed,
    file_truncate,
    is_no_space,
)
from broker._native.log.offset_index cimport (
    TIME_ENTRY_SIZE,
    index_entries,
    index_entries_held,
)
from broker._native.log.producer_state cimport (
    SEQUENCE_DUPLICATE,
    SEQUENCE_NEXT,
    ProducerBatch,
    ProducerEntry,
    SequenceStatus,
    producers_active,
    producers_active_one,
    producers_begin,
    producers_check,
    producers_end,
    producers_ends,
    producers_find,
    producers_free,
    producers_have_room,
    producers_init,
    producers_open,
    producers_restore,
    producers_snapshot,
    producers_update,
    sequence_add,
)
from broker._native.log.seal cimport seal_write
from broker._native.log.segment cimport Segment
from broker._native.log.segmented_log cimport SegmentedLog
from broker._native.log.transaction_index cimport AbortedTransaction
from broker._native.log.transactions cimport Marker, Transactions, read_marker
from broker._native.log.turn cimport (
    LOG_FULL,
    LOG_LOADING,
    LOG_OFFLINE,
    LOG_OK,
    AwaitedLog,
    LogStatus,
    Turn,
    call_reached,
    is_transient,
)
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
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
from broker.model.errors import DiskFull, TooManyProducers, StorageError
from broker.model.log_results import AppendResult, AppendStatus, LogEvent

logger = logging.getLogger(__name__)

APPENDED, DUPLICATE = AppendStatus.APPENDED, AppendStatus.DUPLICATE

cdef enum:    # the base of an AppendStatus
    OF_BATCH = 10
    OF_SEQUENCE = 20
    OF_LOG = 30

cdef size_t STAGED_BATCH_BYTES_MAX = limits.STAGED_BATCH_BYTES_MAX
cdef size_t STAGED_BYTES_MAX = limits.STAGED_BYTES_MAX
cdef uint32_t STAGED_BYTES_MIN = limits.STAGED_BYTES_MIN
cdef int64_t TAIL_RESERVE_BYTES_MIN = limits.TAIL_RESERVE_BYTES_MIN
cdef int64_t SEGMENT_BYTES_MAX = limits.SEGMENT_BYTES_MAX
cdef int64_t TAIL_RESERVE_BYTES_MAX = limits.TAIL_RESERVE_BYTES_MAX
cdef int32_t INDEX_ENTRIES_HELD_IDLE = limits.INDEX_ENTRIES_HELD_IDLE


@cython.final
cdef class PartitionLog(SegmentedLog):
    """One partition's log. It is created empty and closed; recovery.pyx opens it."""

    def __cinit__(self, Turn turn, str topic, bytes topic_id, int32_t partition, str folder, *,
                  uint32_t producer_ids_max=limits.PRODUCER_IDS_PER_PARTITION_MAX,
                  int64_t producer_expiration_ms=24 * 3600 * 1000, **settings):
        self.turn = turn
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.folder = folder
        self.folder_path = os.fsencode(folder)
        self.transactions = Transactions()
        self.unsealed = []
        self.unsynced_indexes = []
        self.sync_callbacks = []
        self.configure(**settings)
        producers_init(&self.producers, producer_ids_max, producer_expiration_ms)
        self.job.owner = <void*>self

    def __dealloc__(self):
        producers_free(&self.producers)
        free(self.staged)

    def __repr__(self):
        return f"<PartitionLog {self.topic}-{self.partition} [{self.log_start_offset}, " \
               f"{self.log_end_offset}) high watermark {self.high_watermark}>"

    def configure(self, *, bint is_group_commit=True, bint is_plain=True,
                  bint needs_keys=False, uint32_t protocol_flags=0,
                  int64_t segment_bytes_max=1 << 30,
                  int64_t segment_ms=7 * 24 * 3600 * 1000, int64_t segment_jitter_ms=0,
                  int64_t index_bytes_max=limits.INDEX_BYTES_MAX,
                  int32_t index_interval_bytes=limits.INDEX_INTERVAL_BYTES,
                  bint is_preallocated=False, int32_t batch_bytes_max=limits.MESSAGE_BYTES_MAX,
                  int64_t before_ms_max=INT64_MAX, int64_t after_ms_max=INT64_MAX,
                  int64_t flush_messages=INT64_MAX, int64_t flush_ms=INT64_MAX):
        """Set the topic's configuration; it applies from the next append on."""
        cdef bint was_group_commit = self.is_group_commit
        self.is_group_commit = is_group_commit
        self.is_plain = is_plain
        self.needs_keys = needs_keys
        self.protocol_flags = protocol_flags
        self.segment_bytes_max = segment_bytes_max
        self.segment_ms = segment_ms
        self.segment_jitter_ms = segment_jitter_ms
        # The time index has the larger entries, so it is full first.
        self.index_entries_max = max(1, index_bytes_max // TIME_ENTRY_SIZE)
        self.index_interval_bytes = index_interval_bytes
        self.is_preallocated = is_preallocated
        self.batch_bytes_max = batch_bytes_max
        self.before_ms_max = before_ms_max
        self.after_ms_max = after_ms_max
        self.flush_messages = flush_messages
        self.flush_ms = flush_ms
        if self.unsynced_since_ms > 0:
            self.begin_to_age()
        if is_group_commit != was_group_commit and self.active is not None and (
                not self.is_loading):
            # Batches appended under the old setting are synced, or made visible, at the turn's end.
            self.mark_dirty()

    cdef void mark_dirty(self) noexcept:
        if not self.is_dirty:
            self.is_dirty = True
            self.turn.dirty.append(self)
            self.turn.request_end()

    # ---- append -------------------------------------------------------------------------------

    cdef SequenceStatus check_sequence(self, BatchInfo* info, ProducerBatch* duplicate) noexcept:
        """Compare a batch with its producer's sequence; without a producer id it is SEQUENCE_NEXT.
        """
        if info.producer_id < 0:
            return SEQUENCE_NEXT
        return producers_check(
            &self.producers, info.producer_id, info.producer_epoch, info.base_sequence,
            info.record_count, self.turn.steady_ms, duplicate)

    cdef bint accepts_times(self, BatchInfo* info) noexcept:
        """Return whether a batch's timestamps are within the topic's bounds around now (KIP-937).

        False for a batch with LogAppendTime: only the broker sets that.
        """
        cdef int64_t now_ms = self.turn.now_ms
        if info.attributes & ATTRIBUTE_LOG_APPEND_TIME:
            return False
        # The client's numbers may have any value, so no arithmetic here may overflow.
        if info.base_timestamp != -1 and info.base_timestamp < now_ms - self.before_ms_max:
            return False
        return info.max_timestamp < now_ms or info.max_timestamp - now_ms <= self.after_ms_max

    cdef LogStatus append_batch(self, uint8_t* batch, BatchInfo* info,
                                int64_t* base_offset) noexcept:
        """Append one validated batch; its base offset and leader epoch are patched in place."""
        cdef Segment segment = self.active
        cdef int status
        if self.is_loading:
            return LOG_LOADING
        if self.is_offline or self.is_deleted:
            return LOG_OFFLINE
        if self.is_full:
            self.turn.report_full()
            return LOG_FULL
        status = self.open_to_write(segment)
        if status == 0 and self.must_roll(info):
            if self.may_roll(info):
                status = self.begin_segment()
                segment = self.active
            else:
                status = segment.open(False)   # `may_hold_more` may have closed it
        if status < 0:
            return self.refuse(status)
        base_offset[0] = self.log_end_offset
        batch_assign(batch, self.log_end_offset, self.leader_epoch)
        segment.is_settled = False   # staged bytes keep the file open
        status = self.put(segment, batch, info.size)
        if status == 0 and info.attributes & ATTRIBUTE_CONTROL:
            status = self.note_abort(segment, batch, info, self.log_end_offset)
            if is_no_space(status):
                self.staged_size -= <uint32_t>info.size   # a marker is small, so it was staged
        if status < 0:
            return self.refuse(status)
        if segment.created_ms == 0:
            segment.created_ms = self.turn.steady_ms
        segment.note(info, self.log_end_offset, self.index_interval_bytes)
        self.update_producer(batch, info, self.log_end_offset)
        self.log_end_offset += <int64_t>info.last_offset_delta + 1
        if self.unsynced_since_ms == 0:
            self.unsynced_since_ms = self.turn.steady_ms
            self.begin_to_age()
        self.mark_dirty()
        return LOG_OK

    cdef int open_to_write(self, Segment segment) noexcept:
        # A file stays open from a write until its sync, so here `count_max` is a hard limit.
        if segment.fd < 0 and not self.turn.files.make_room():
            return -EMFILE
        return segment.open(False)

    cdef LogStatus refuse(self, int status) noexcept:
        """Return the result of an append that failed with a status."""
        if is_no_space(status):
            self.has_unsynced_cut = True
            self.turn.report_full()
            return LOG_FULL
        # Without a descriptor nothing has been written, and the next append may succeed.
        self.fail_unless_transient(status)
        return LOG_OFFLINE

    cdef bint must_roll(self, BatchInfo* info) noexcept:
        cdef Segment segment = self.active
        cdef int64_t since
        if segment.size == 0:
            return False
        if segment.size + <int64_t>info.size > self.segment_bytes_max:
            return True
        if self.log_end_offset + info.last_offset_delta - segment.base_offset > INT32_MAX:
            return True
        if index_entries(&segment.index) >= self.index_entries_max:
            return True
        # Age by the records' timestamps, as in Kafka; by the clock if they have none.
        since = segment.roll_time()
        if since >= 0 and info.max_timestamp >= 0:
            return info.max_timestamp - since > self.segment_ms - self.jitter_of(segment)
        return segment.created_ms > 0 and (
            self.turn.steady_ms - segment.created_ms > self.segment_ms - self.jitter_of(segment))

    cdef bint may_roll(self, BatchInfo* info) noexcept:
        """Return whether the log may roll now; else it waits for syncs, and the segment grows.

        It does not wait when the segment can hold no more.
        """
        cdef Segment segment = self.active
        return self.turn.files.may_hold_more(PyList_GET_SIZE(self.unsealed)) or (
            segment.size + <int64_t>info.size > SEGMENT_BYTES_MAX
            or self.log_end_offset + info.last_offset_delta - segment.base_offset > INT32_MAX)

    cdef int64_t jitter_of(self, Segment segment) noexcept:
        # A hash of the name instead of a random number spreads logs as well, and is reproducible.
        cdef uint32_t spread
        if self.segment_jitter_ms == 0:
            return 0
        spread = crc32c_extend(<uint32_t>segment.base_offset,
                               <const uint8_t*>PyBytes_AS_STRING(self.folder_path),
                               PyBytes_GET_SIZE(self.folder_path))
        return min(self.segment_ms, spread % (<uint64_t>self.segment_jitter_ms + 1))

    cdef int put(self, Segment segment, const uint8_t* batch, size_t size) noexcept:
        # Stage small batches, to write them together at the end of the turn.
        cdef int status
        cdef uint32_t capacity
        cdef void* grown
        if self.turn.is_tight:
            status = segment.reserve(
                segment.written + self.staged_size + <int64_t>size, TAIL_RESERVE_BYTES_MIN)
            if status < 0:
                return status
        if size > STAGED_BATCH_BYTES_MAX or self.staged_size + size > STAGED_BYTES_MAX:
            status = self.write_staged()
            if status < 0:
                return status
            if size > STAGED_BATCH_BYTES_MAX:
                return segment.write(batch, size, not self.is_group_commit)
        if self.staged_size + size > self.staged_capacity and not self.take_spare(size):
            capacity = self.staged_capacity if self.staged_capacity > 0 else STAGED_BYTES_MIN
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

    cdef bint take_spare(self, size_t size) noexcept:
        # Reuse the staging buffer of another log, which is still in the core's cache.
        if self.turn.spare_capacity < self.staged_size + size:
            return False
        if self.staged_size > 0:
            memcpy(self.turn.spare, self.staged, self.staged_size)
        free(self.staged)
        self.staged, self.staged_capacity = self.turn.spare, self.turn.spare_capacity
        self.turn.spare, self.turn.spare_capacity = NULL, 0
        return True

    cdef void leave_spare(self) noexcept:
        if self.turn.spare_capacity < self.staged_capacity:
            free(self.turn.spare)
            self.turn.spare, self.turn.spare_capacity = self.staged, self.staged_capacity
        else:
            free(self.staged)
        self.staged, self.staged_capacity = NULL, 0

    cdef int write_staged(self) noexcept:
        cdef int status
        if self.staged_size == 0:
            return 0
        status = self.active.write(self.staged, self.staged_size, not self.is_group_commit)
        if not is_no_space(status):
            self.staged_size = 0
        return status

    cdef void keep_staged(self) noexcept:
        """Keep the staged batches, invisible, until the disk has space for them."""
        if self not in self.turn.full:
            self.turn.full.append(self)
        self.has_unsynced_cut = True
        if self.is_full:
            # A retry has failed: waiters have waited for what the broker could do about it.
            self.fail_waiters_with(LOG_FULL)
            call_reached(self, self.sync_callbacks, self.durable_end, False)
        else:
            logger.warning("disk full: appended batches are kept in memory and written once there "
                           "is space topic=%s partition=%d bytes=%d", self.topic,
                           self.partition, self.staged_size)
        self.is_full = True
        self.turn.report_full()

    cdef void update_producer(
            self, const uint8_t* data, BatchInfo* info, int64_t base_offset) noexcept:
        """Update the state of a batch's producer: its last batches and its transaction."""
        cdef ProducerBatch batch
        if info.producer_id < 0:
            return
        if info.attributes & ATTRIBUTE_CONTROL:
            self.end_transaction(data, info, base_offset + info.last_offset_delta)
            return
        if info.base_sequence >= 0:
            # By the offsets: compaction may have removed records of the batch, or all.
            batch.first_sequence = info.base_sequence
            batch.last_sequence = sequence_add(info.base_sequence, info.last_offset_delta)
            batch.base_offset = base_offset
            batch.last_offset_delta = info.last_offset_delta
            batch.timestamp = info.max_timestamp
            # It cannot fail: check_sequence has checked the limit.
            producers_update(&self.producers, info.producer_id, info.producer_epoch, &batch,
                             self.turn.steady_ms)
        if info.attributes & ATTRIBUTE_TRANSACTIONAL:
            if producers_begin(&self.producers, info.producer_id, info.producer_epoch,
                               base_offset, self.turn.steady_ms) != 0:
                self.transactions.begin(info.producer_id, base_offset)

    cdef int note_abort(
            self, Segment segment, const uint8_t* data, BatchInfo* info,
            int64_t base_offset) noexcept:
        """Add the transaction that a marker aborts to the segment's index. 0 or -errno.

        This precedes the marker's append: otherwise readers of committed records would get aborted
        ones.
        """
        cdef Marker marker
        cdef AbortedTransaction aborted
        if not read_marker(data, info, &marker) or not marker.is_abort:
            return 0
        aborted.producer_id = info.producer_id
        aborted.first_offset = self.transactions.first_of(info.producer_id)
        if aborted.first_offset < 0:
            return 0
        aborted.last_offset = base_offset + info.last_offset_delta
        aborted.last_stable_offset = self.transactions.first_open_after(
            aborted.last_offset, info.producer_id)
        return segment.note_aborted(&aborted)

    cdef void end_transaction(
            self, const uint8_t* data, BatchInfo* info, int64_t marker_offset) noexcept:
        cdef Marker marker
        if read_marker(data, info, &marker):
            producers_end(&self.producers, info.producer_id, info.producer_epoch,
                          marker.coordinator_epoch, self.turn.steady_ms)
            self.transactions.end(info.producer_id, marker_offset)

    cdef bint restore_producers(self, bytes snapshot) except -1:
        """Load the producers of a snapshot; return False, with none loaded, if it is damaged."""
        if producers_restore(
                &self.producers, snapshot, self.turn.steady_ms, self.turn.now_ms) < 0:
            self.clear_producers()
            return False
        for producer_id, first_offset in producers_open(&self.producers).items():
            self.transactions.begin(producer_id, first_offset)
        return True

    cdef void clear_producers(self):
        producers_free(&self.producers)
        self.transactions = Transactions()

    def roll(self):
        """Close the active segment and begin the next; False when the active segment is empty, or
        too many full segments wait for a sync.

        Raises StorageError when the next one cannot be created.
        """
        cdef int status
        if not self.is_in_service or self.active.size == 0:
            return False
        if not self.turn.files.may_hold_more(PyList_GET_SIZE(self.unsealed)):
            return False
        status = self.active.open(False)
        if status == 0:
            status = self.begin_segment()
        if status < 0:
            error = DiskFull if is_no_space(status) else StorageError
            self.refuse(status)   # goes offline for it: staged batches may be lost
            raise error(f"{self.folder}: cannot begin a segment: "
                        f"{(<bytes>strerror(-status)).decode()}")
        self.mark_dirty()
        return True

    cdef int begin_segment(self) noexcept:
        # The old file is truncated and synced by the next job; until then it is in `unsealed`.
        cdef Segment segment
        cdef int status = self.write_staged()
        if status == 0 and file_is_removed(self.active.fd):
            status = -ENOENT   # a new file alone would look like a log that begins here
        if status < 0:
            return status
        self.active.finish_index()
        segment = self.new_segment(self.log_end_offset)
        status = segment.open(True)
        if status == 0 and self.is_preallocated:
            # Without space for all of it, appends use what space there is.
            status = segment.reserve(self.segment_bytes_max, TAIL_RESERVE_BYTES_MAX)
            if is_no_space(status):
                status = 0
        if status < 0:
            return status
        self.active.is_settled = False
        self.unsealed.append(self.active)
        self.unsynced_indexes.append(self.active)
        self.segments.append(segment)
        self.active = segment
        self.turn.events.append((LogEvent.ROLLED, self))
        return 0

    cdef bint may_drop(self, Segment segment) noexcept:
        return segment is not self.active and segment not in self.unsealed

    # ---- the end of a turn: write, sync, advance ----------------------------------------------

    cdef void flush(self) noexcept:
        """Write what is staged; then advance, or have the commit thread sync."""
        cdef int status
        self.is_dirty = False
        if self.is_offline or self.is_deleted:
            return
        status = self.write_staged()
        if is_no_space(status):
            self.keep_staged()
            return
        if self.staged_capacity > 0:
            self.leave_spare()
        if status < 0:
            self.fail(status)
            return
        self.is_full = False
        if not self.is_group_commit:
            self.advance(self.log_end_offset, self.active, self.active.written,
                         self.active.max_timestamp)
        if not self.job_is_running and (self.is_sync_due() or self.owes_sync()):
            self.start_sync()

    cdef bint owes_sync(self) noexcept:
        return bool(self.unsealed) or (self.durable_end < self.log_end_offset and (
            self.is_group_commit or bool(self.sync_callbacks)))

    cdef bint is_sync_due(self) noexcept:
        # Under `os`, by flush.messages and flush.ms.
        return self.unsynced_since_ms > 0 and (
            self.log_end_offset - self.durable_end >= self.flush_messages
            or self.turn.steady_ms - self.unsynced_since_ms >= self.flush_ms)

    cdef void begin_to_age(self) noexcept:
        # Add it to the list once, however often it is synced until `sync_aged` reads the list.
        if self.flush_ms != INT64_MAX and not self.is_aging:
            self.is_aging = True
            self.turn.aging.append(self)

    cdef bint ages(self) noexcept:
        self.is_aging = self.unsynced_since_ms > 0 and not (self.is_offline or self.is_deleted)
        if self.is_aging and self.is_sync_due() and not self.job_is_running:
            self.mark_dirty()
        return self.is_aging

    cdef void start_sync(self) noexcept:
        # One job is in flight per log; all batches appended before it starts become durable
        # together. `job_is_running` is set first: opening a file may close others, and then calls
        # `go_idle` of this log.
        cdef Segment sealed
        cdef int status = 0
        self.job_is_running = True
        # (An open file keeps its place in the order of use: a sync is not a use.)
        if self.active.fd < 0:
            status = self.active.open(False)
        self.active.is_settled = False   # so that the job's file is not closed
        self.job.fds[0] = self.active.fd
        self.job.fds[1] = self.job.fds[2] = -1
        self.job.is_folder[0] = self.job.is_folder[1] = self.job.is_folder[2] = 0
        self.job.truncate_to = -1
        self.job.target = self.log_end_offset
        self.job_started_ms = self.turn.steady_ms
        self.job_segment = self.active
        self.job_position = self.active.written
        self.job_max_timestamp = self.active.max_timestamp
        if self.unsealed:
            sealed = <Segment>self.unsealed[0]
            sealed.is_settled = False
            if status == 0 and sealed.fd < 0:
                status = sealed.open(False)
            self.job.fds[0] = sealed.fd
            self.job.truncate_to = sealed.written
            # A file's name must be on the disk before its bytes count as durable.
            if status == 0:
                status = self.sync_folder_too()
            if PyList_GET_SIZE(self.unsealed) == 1:
                self.job.fds[1] = self.active.fd
            else:
                # Several full segments are synced one per job: this job covers only the first.
                self.job.target = self.segment_after(sealed).base_offset
                self.job_segment = sealed
                self.job_position = sealed.written
                self.job_max_timestamp = sealed.max_timestamp
        if status < 0:
            self.job_is_running = self.is_going_idle = False
            self.close_folder()
            if is_transient(status):
                self.turn.retry_queue.append(self)
            else:
                self.fail(status)
            return
        Py_INCREF(self)  # the job has a pointer to this log until `synced`
        self.turn.commit.submit(&self.job)

    cdef int sync_folder_too(self) noexcept:
        cdef int fd = self.turn.files.open_path(self.folder_path, O_RDONLY | O_DIRECTORY)
        self.job.fds[2] = fd
        self.job.is_folder[2] = 1
        return 0 if fd >= 0 else fd

    cdef void close_folder(self) noexcept:
        if self.job.fds[2] >= 0:
            file_close(self.job.fds[2])

    cdef void synced(self) noexcept:
        """Process the ended job: everything it covered is durable, or the log goes offline."""
        cdef Segment sealed
        self.job_is_running = False
        self.close_folder()
        if self.is_offline or self.is_deleted:
            return
        if self.job.result == 0 and file_is_removed(self.job.fds[0]):
            self.job.result = -ENOENT   # a deleted file is not found after a restart
        if self.job.result < 0:
            self.fail(self.job.result)
            return
        if self.job.truncate_to >= 0:
            sealed = <Segment>self.unsealed.pop(0)
            sealed.reserved = sealed.written
            sealed.is_settled = True
            # (The result is ignored: the entry matters only if that segment is damaged and the
            # broker is killed before the next checkpoint.)
            seal_write(self.folder_path, self.segment_after(sealed).base_offset)
        if self.job.target > self.durable_end:
            self.durable_end = self.job.target
        # Batches appended during the sync have been unsynced since its start, at most.
        self.unsynced_since_ms = (
            0 if self.durable_end == self.log_end_offset else self.job_started_ms)
        if self.is_group_commit:
            self.advance(self.durable_end, self.job_segment, self.job_position,
                         self.job_max_timestamp)
        if self.sync_callbacks:
            call_reached(self, self.sync_callbacks, self.durable_end, True)
        # With staged bytes, which are in no file yet, the end of the turn starts the next sync.
        if self.staged_size == 0 and self.owes_sync():
            self.start_sync()
        elif self.is_going_idle:
            self.close_active()

    # ---- an idle log holds no descriptor, no preallocated tail and no buffer ------------------

    cdef void go_idle(self) noexcept:
        cdef int status
        if (self.is_loading or self.is_dirty or self.job_is_running or self.is_going_idle
                or self.is_offline or self.is_deleted or self.staged_size > 0
                or self.active is None or (self.active.fd < 0 and not self.unsealed)):
            return
        if self.unsealed and self.turn.files.is_making_room:
            return   # a sync of them needs descriptors itself
        status = self.trim()
        if status < 0:
            self.fail(status)
            return
        self.is_going_idle = True
        # A descriptor with unsynced bytes is never closed. (Unsynced full segments here are from a
        # recovery under `os`.)
        if self.durable_end < self.log_end_offset or self.unsealed:
            self.start_sync()
        else:
            self.close_active()

    cdef int trim(self) noexcept:
        # The preallocated tail was never written, so its truncation need not be synced before a
        # clean stop.
        cdef int status = 0
        if self.active.reserved > self.active.written:
            status = file_truncate(self.active.fd, self.active.written)
            self.active.reserved = self.active.written
            self.has_unsynced_cut = True
        return status

    cdef void close_active(self) noexcept:
        # Unless it has been written to since `go_idle`.
        self.is_going_idle = False
        if (self.is_dirty or self.durable_end < self.log_end_offset
                or self.active.reserved > self.active.written):
            return
        if index_entries_held(&self.active.index) > INDEX_ENTRIES_HELD_IDLE:
            self.active.store_and_free_index()
        if self.active.is_index_dirty and self.active not in self.unsynced_indexes:
            self.unsynced_indexes.append(self.active)
        self.active.is_settled = True
        self.active.close()

    cdef void reach(self, int64_t high_watermark) noexcept:
        self.transactions.reached(high_watermark)
        SegmentedLog.reach(self, high_watermark)

    cdef void fail_waiters(self) noexcept:
        self.staged_size = 0
        call_reached(self, self.sync_callbacks, self.durable_end, False)
        AwaitedLog.fail_waiters(self)

    def when_synced(self, int64_t offset, callback):
        """Call back with True once everything below an offset is synced, whatever the topic's
        durability; with False if that fails.
        """
        if self.is_offline or self.is_deleted:
            callback(False)
        elif offset <= self.durable_end:
            callback(True)
        else:
            self.sync_callbacks.append((offset, callback))
            self.mark_dirty()

    def take_offline(self, str reason):
        """Refuse all requests from here on: the log's files cannot be used."""
        if self.is_offline:
            return
        logger.error("log offline topic=%s partition=%d folder=%s error=%s", self.topic,
                     self.partition, self.folder, reason)
        self.is_offline = True
        self.turn.log_changes += 1
        self.fail_waiters()
        self.turn.events.append((LogEvent.OFFLINE, self))

    def retire(self):
        """Mark the log as deleted: refuse all requests from here on, and fail the waiters."""
        self.is_deleted = True
        self.fail_waiters()

    @property
    def last_stable_offset(self):
        """The first offset of the oldest open transaction, or else the high watermark."""
        return min(self.high_watermark, self.transactions.first_undecided)

    # ---- transactions -------------------------------------------------------------------------

    def admit_transaction(self, int64_t producer_id, int16_t epoch):
        """Accept a producer's transactional batches of an epoch until its marker is appended."""
        self.transactions.admit(producer_id, epoch)

    def dismiss_transaction(self, int64_t producer_id):
        """Accept no more transactional batches of a producer: its transaction has ended."""
        self.transactions.dismiss(producer_id)

    def admits_transaction(self, int64_t producer_id, int16_t epoch):
        """Return whether a producer's transactional batches of an epoch are accepted."""
        return self.transactions.admits(producer_id, epoch)

    def has_batch(self, bytes records):
        """Return whether this is a duplicate of one of its producer's last batches."""
        cdef BatchInfo info
        cdef ProducerBatch original
        return batch_validate(
            <const uint8_t*>PyBytes_AS_STRING(records), PyBytes_GET_SIZE(records), &info
        ) == BATCH_OK and self.check_sequence(&info, &original) == SEQUENCE_DUPLICATE

    cdef bint fits_transaction(self, BatchInfo* info) noexcept:
        """Return whether its producer's transaction allows a batch to be appended (KIP-890)."""
        cdef ProducerEntry* entry
        if info.attributes & ATTRIBUTE_TRANSACTIONAL:
            return self.transactions.admits(info.producer_id, info.producer_epoch)
        if info.producer_id < 0 or self.transactions.first_undecided == INT64_MAX:
            return True
        entry = producers_find(&self.producers, info.producer_id)
        return entry == NULL or entry.transaction_first < 0

    @property
    def active_producers(self):
        """(id, epoch, last sequence, last timestamp, coordinator epoch, first offset of the open
        transaction) of the log's producers; -1 for unknown values.
        """
        return producers_active(&self.producers, self.turn.steady_ms)

    def active_producer(self, int64_t producer_id):
        """Return the same for one producer; None when it is unknown."""
        return producers_active_one(&self.producers, producer_id, self.turn.steady_ms)

    @property
    def open_transactions(self):
        """First offset of each producer's open transaction."""
        return dict(self.transactions.open)

    # ---- append from Python -------------------------------------------------------------------

    def append(self, bytes records):
        """Append a client's batch; return its AppendResult, without an append time."""
        cdef BatchInfo info
        cdef ProducerBatch original
        cdef int64_t base_offset = -1
        cdef BatchStatus checked = batch_validate(
            <const uint8_t*>PyBytes_AS_STRING(records), PyBytes_GET_SIZE(records), &info)
        cdef SequenceStatus sequence
        cdef LogStatus status
        if checked != BATCH_OK:
            return AppendResult(AppendStatus(OF_BATCH + checked))
        if <int64_t>info.size > self.batch_bytes_max:
            return AppendResult(AppendStatus.BATCH_TOO_LARGE)
        sequence = self.check_sequence(&info, &original)
        if sequence == SEQUENCE_DUPLICATE:
            return AppendResult(DUPLICATE, original.base_offset,
                                original.base_offset + original.last_offset_delta + 1)
        if sequence != SEQUENCE_NEXT:
            return AppendResult(AppendStatus(OF_SEQUENCE + sequence))
        if not self.fits_transaction(&info):
            return AppendResult(AppendStatus.TRANSACTION_NOT_ADMITTED
                                if info.attributes & ATTRIBUTE_TRANSACTIONAL
                                else AppendStatus.TRANSACTION_OPEN)
        if self.turn.refuses_clients:
            return AppendResult(AppendStatus.LOG_FULL)
        copy = bytearray(records)
        status = self.append_batch(<uint8_t*><char*>copy, &info, &base_offset)
        if status != LOG_OK:
            return AppendResult(AppendStatus(OF_LOG + status))
        return AppendResult(APPENDED, base_offset, base_offset + info.last_offset_delta + 1)

    def append_internal(self, bytes batch):
        """Append a batch of the broker's own and return its base offset.

        Raises NoRoom for a batch of a producer above the log's limit, DiskFull while the disk is
        full, and StorageError when the log is offline. A marker is exempt from the producer limit
        and from `is_read_only`, because it ends a transaction and lets its producer continue.
        """
        cdef BatchInfo info
        cdef Cursor cursor
        cdef LogStatus status
        cdef int64_t base_offset = -1
        copy = bytearray(batch)
        cursor.next = <const uint8_t*><char*>copy
        cursor.left = len(copy)
        if batch_header(&cursor, &info) != BATCH_OK or cursor.left > 0 or (
                info.last_offset_delta < 0):
            raise ValueError("append_internal takes exactly one batch of version 2, not empty")
        if info.producer_id >= 0 and not info.attributes & ATTRIBUTE_CONTROL and (
                not producers_have_room(&self.producers, info.producer_id)):
            raise TooManyProducers(f"{self!r} has no room for producer {info.producer_id}")
        if self.turn.is_read_only and not info.attributes & ATTRIBUTE_CONTROL:
            raise DiskFull(f"{self!r}: the disk is full")
        status = self.append_batch(<uint8_t*><char*>copy, &info, &base_offset)
        if status == LOG_FULL:
            raise DiskFull(f"{self!r}: the disk is full")
        if status != LOG_OK:
            raise StorageError(f"{self!r} is {'loading' if self.is_loading else 'offline'}")
        return base_offset

    # ---- for broker.storage -------------------------------------------------------------------

    def sync_indexes(self):
        """Sync the indexes of full segments, from any thread, so that a start after a crash need
        not read those segments again. Of the active segment, which it reads anyway, sync only the
        aborted transactions: a snapshot may be newer than their markers. Raises StorageError when
        that fails.
        """
        cdef Segment segment = self.active
        cdef int status = 0
        if segment.has_unsynced_aborts:
            with nogil:
                status = segment.sync_aborted()
            if status < 0:
                raise StorageError(f"{self.folder}: cannot sync the aborted transactions: "
                                   f"{(<bytes>strerror(-status)).decode()}")
        for segment in list(self.unsynced_indexes):
            status = segment.finish_index()   # entries that could not be written before
            if status == 0:
                with nogil:
                    status = segment.sync_index()
            if status < 0:
                raise StorageError(f"{self.folder}: cannot sync an index: "
                                   f"{(<bytes>strerror(-status)).decode()}")
            self.unsynced_indexes.remove(segment)

    @property
    def has_unsynced_indexes(self):
        """Whether there are indexes for `sync_indexes` to sync."""
        return len(self.unsynced_indexes) > 0 or self.active.has_unsynced_aborts

    @property
    def needs_sync(self):
        """Whether the disk may have less than the log, or more."""
        return self.has_unsynced_cut or self.durable_end < self.log_end_offset or (
            len(self.unsealed) > 0)

    @property
    def producer_ends(self):
        """(producer id, epoch, last offset) of each producer's newest batch."""
        return producers_ends(&self.producers)

    def producer_snapshot(self):
        """Return (log end offset, content of its `.snapshot` file)."""
        return self.log_end_offset, producers_snapshot(&self.producers)

    @property
    def unsealed_count(self):
        """How many full segments are not wholly on the disk yet."""
        return PyList_GET_SIZE(self.unsealed)

    @property
    def producer_count(self):
        """How many producers the log has the state of."""
        return self.producers.count
