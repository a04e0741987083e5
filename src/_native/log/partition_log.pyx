"""The hot state of one partition: its segments, ends and producers.

    log start offset <= high watermark <= durable end (group-commit) <= log end offset

An append takes the next offsets, goes to the active segment's file (small batches staged until the
turn of the loop ends, then one write for all of them) and makes the log dirty. `flush` at the end
of the turn writes what is staged. What an acknowledgement waits for depends on the durability word:

    os            the high watermark follows the write: the page cache has the bytes
    group-commit  the commit thread syncs the file; when it has, everything appended before the
                  sync began is durable, and the high watermark follows to there

A failed write or sync takes the log offline for good: what the page cache still shows may not be on
the disk, so nothing of it may be acknowledged (reliability.md 5.1). No sync is ever retried.

A disk without room is not a failure. An append that finds none is refused and has changed nothing.
What was staged has its offsets, so it stays staged (`is_full`): nobody sees it, nothing else is
taken, and it is written again when Turn.retry_full says so. While the disk is tight
(Turn.is_tight), room is taken before a batch is, so that this does not happen.

A roll opens the next segment at once; the sealed file's tail is cut and the old file, the new file
and the folder are synced by the same job that makes the first batch of the new one durable.
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

from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.crc32c cimport crc32c_extend
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
    EVENT_OFFLINE,
    EVENT_ROLLED,
    LOG_FULL,
    LOG_LOADING,
    LOG_OFFLINE,
    LOG_OK,
    AwaitedLog,
    LogStatus,
    Turn,
    call_reached,
    is_wanting,
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

logger = logging.getLogger(__name__)

cdef size_t STAGED_BATCH_BYTES_MAX = limits.STAGED_BATCH_BYTES_MAX
cdef size_t STAGED_BYTES_MAX = limits.STAGED_BYTES_MAX
cdef uint32_t STAGED_BYTES_MIN = limits.STAGED_BYTES_MIN
cdef int64_t TAIL_RESERVE_BYTES_MIN = limits.TAIL_RESERVE_BYTES_MIN
cdef int64_t SEGMENT_BYTES_MAX = limits.SEGMENT_BYTES_MAX
cdef int64_t TAIL_RESERVE_BYTES_MAX = limits.TAIL_RESERVE_BYTES_MAX
cdef int32_t INDEX_ENTRIES_HELD_AT_REST = limits.INDEX_ENTRIES_HELD_AT_REST


@cython.final
cdef class PartitionLog(SegmentedLog):
    """One partition's log. Created empty and closed; recovery.pyx makes it usable."""

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
                  bint needs_keys=False, bint knows_names=False, bint spreads_keys=False,
                  int64_t segment_bytes_max=1 << 30,
                  int64_t segment_ms=7 * 24 * 3600 * 1000, int64_t segment_jitter_ms=0,
                  int64_t index_bytes_max=limits.INDEX_BYTES_MAX,
                  int32_t index_interval_bytes=limits.INDEX_INTERVAL_BYTES,
                  bint is_preallocated=False, int32_t batch_bytes_max=limits.MESSAGE_BYTES_MAX,
                  int64_t behind_ms_max=INT64_MAX, int64_t ahead_ms_max=INT64_MAX,
                  int64_t flush_messages=INT64_MAX, int64_t flush_ms=INT64_MAX):
        """Set what the topic's configuration says; the next append obeys it."""
        cdef bint was_group_commit = self.is_group_commit
        self.is_group_commit = is_group_commit
        self.is_plain = is_plain
        self.needs_keys = needs_keys
        self.knows_names = knows_names
        self.spreads_keys = spreads_keys
        self.segment_bytes_max = segment_bytes_max
        self.segment_ms = segment_ms
        self.segment_jitter_ms = segment_jitter_ms
        # The time index has the larger entries: it is full first.
        self.index_entries_max = max(1, index_bytes_max // TIME_ENTRY_SIZE)
        self.index_interval_bytes = index_interval_bytes
        self.is_preallocated = is_preallocated
        self.batch_bytes_max = batch_bytes_max
        self.behind_ms_max = behind_ms_max
        self.ahead_ms_max = ahead_ms_max
        self.flush_messages = flush_messages
        self.flush_ms = flush_ms
        if self.unsynced_since_ms > 0:
            self.begin_to_age()
        if is_group_commit != was_group_commit and self.active is not None and (
                not self.is_loading):
            # What was acknowledged under the other word is synced, or shown, at the turn's end.
            self.mark_dirty()

    cdef void mark_dirty(self) noexcept:
        if not self.is_dirty:
            self.is_dirty = True
            self.turn.dirty.append(self)
            self.turn.request_end()

    # ---- append -------------------------------------------------------------------------------

    cdef SequenceStatus check_sequence(self, BatchInfo* info, ProducerBatch* duplicate) noexcept:
        """What an idempotent producer's batch is to this log; others are always next."""
        if info.producer_id < 0:
            return SEQUENCE_NEXT
        return producers_check(
            &self.producers, info.producer_id, info.producer_epoch, info.base_sequence,
            info.record_count, self.turn.steady_ms, duplicate)

    cdef bint accepts_times(self, BatchInfo* info) noexcept:
        """Whether a batch's timestamps are as near to now as the topic asks (KIP-937).

        They are those of the records: only a log says when it was that a record was appended.
        """
        cdef int64_t now_ms = self.turn.now_ms
        if info.attributes & ATTRIBUTE_LOG_APPEND_TIME:
            return False
        # The client's numbers may be any: nothing is computed that could overflow.
        if info.base_timestamp != -1 and info.base_timestamp < now_ms - self.behind_ms_max:
            return False
        return info.max_timestamp < now_ms or info.max_timestamp - now_ms <= self.ahead_ms_max

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
            self.turn.found_full()
            return LOG_FULL
        status = self.open_to_write(segment)
        if status == 0 and self.must_roll(info):
            if self.may_roll(info):
                status = self.begin_segment()
                segment = self.active
            else:
                status = segment.open(False)   # room was made for a roll
        if status < 0:
            return self.refuse(status)
        base_offset[0] = self.log_end_offset
        batch_assign(batch, self.log_end_offset, self.leader_epoch)
        segment.is_settled = False   # what is staged keeps the file open
        status = self.put(segment, batch, info.size)
        if status == 0 and info.attributes & ATTRIBUTE_CONTROL:
            status = self.note_abort(segment, batch, info, self.log_end_offset)
            if is_no_space(status):
                self.staged_size -= <uint32_t>info.size   # a marker is small
        if status < 0:
            return self.refuse(status)
        if segment.created_ms == 0:
            segment.created_ms = self.turn.steady_ms
        segment.note(info, self.log_end_offset, self.index_interval_bytes)
        self.remember_producer(batch, info, self.log_end_offset)
        self.log_end_offset += <int64_t>info.last_offset_delta + 1
        if self.unsynced_since_ms == 0:
            self.unsynced_since_ms = self.turn.steady_ms
            self.begin_to_age()
        self.mark_dirty()
        return LOG_OK

    cdef int open_to_write(self, Segment segment) noexcept:
        # What is written to stays open until it is synced, so here the limit is one.
        if segment.fd < 0 and not self.turn.files.make_room():
            return -EMFILE
        return segment.open(False)

    cdef LogStatus refuse(self, int status) noexcept:
        """What an append comes to that could not be done."""
        if is_no_space(status):
            self.has_unsynced_cut = True
            self.turn.found_full()
            return LOG_FULL
        # Without a descriptor nothing has been written, and the next append may have one.
        self.fail_unless_wanting(status)
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
        # Age by the records' own times, as in Kafka; by the clock where they have none.
        since = segment.roll_time()
        if since >= 0 and info.max_timestamp >= 0:
            return info.max_timestamp - since > self.segment_ms - self.jitter_of(segment)
        return segment.created_ms > 0 and (
            self.turn.steady_ms - segment.created_ms > self.segment_ms - self.jitter_of(segment))

    cdef bint may_roll(self, BatchInfo* info) noexcept:
        """Whether a roll may be made now: else it waits for syncs, and the segment grows.

        It does not wait where the segment can hold no more.
        """
        cdef Segment segment = self.active
        return self.turn.files.may_hold_more(PyList_GET_SIZE(self.unsealed)) or (
            segment.size + <int64_t>info.size > SEGMENT_BYTES_MAX
            or self.log_end_offset + info.last_offset_delta - segment.base_offset > INT32_MAX)

    cdef int64_t jitter_of(self, Segment segment) noexcept:
        # From the name, not from a generator: logs spread as well, and a run can be repeated.
        cdef uint32_t spread
        if self.segment_jitter_ms == 0:
            return 0
        spread = crc32c_extend(<uint32_t>segment.base_offset,
                               <const uint8_t*>PyBytes_AS_STRING(self.folder_path),
                               PyBytes_GET_SIZE(self.folder_path))
        return min(self.segment_ms, spread % (<uint64_t>self.segment_jitter_ms + 1))

    cdef int put(self, Segment segment, const uint8_t* batch, size_t size) noexcept:
        # Small batches wait for the end of the turn and share one write.
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
        # Stage in what another log has staged in: memory that the core still has in its cache.
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
        """There was no room for what is staged: nobody sees it before there is."""
        if self not in self.turn.full:
            self.turn.full.append(self)
        self.has_unsynced_cut = True
        if self.is_full:
            # Not the first time: who waits has waited for what the broker could do about it.
            self.let_go_as(LOG_FULL)
            call_reached(self, self.sync_callbacks, self.durable_end, False)
        else:
            logger.warning("no room on the disk for what is appended: kept, and written again "
                           "when there is topic=%s partition=%d bytes=%d", self.topic,
                           self.partition, self.staged_size)
        self.is_full = True
        self.turn.found_full()

    cdef void remember_producer(
            self, const uint8_t* data, BatchInfo* info, int64_t base_offset) noexcept:
        """Count a batch in: what its producer sent last, which transaction it is in."""
        cdef ProducerBatch batch
        if info.producer_id < 0:
            return
        if info.attributes & ATTRIBUTE_CONTROL:
            self.end_transaction(data, info, base_offset + info.last_offset_delta)
            return
        if info.base_sequence >= 0:
            # By the offsets: compaction may have left fewer records of the batch, or none.
            batch.first_sequence = info.base_sequence
            batch.last_sequence = sequence_add(info.base_sequence, info.last_offset_delta)
            batch.base_offset = base_offset
            batch.last_offset_delta = info.last_offset_delta
            batch.timestamp = info.max_timestamp
            # There is room: check_sequence has seen to it.
            producers_update(&self.producers, info.producer_id, info.producer_epoch, &batch,
                             self.turn.steady_ms)
        if info.attributes & ATTRIBUTE_TRANSACTIONAL:
            if producers_begin(&self.producers, info.producer_id, info.producer_epoch,
                               base_offset, self.turn.steady_ms) != 0:
                self.transactions.begin(info.producer_id, base_offset)

    cdef int note_abort(
            self, Segment segment, const uint8_t* data, BatchInfo* info,
            int64_t base_offset) noexcept:
        """Write down in a segment's index what its marker aborts, before it does. 0 or -errno.

        Without that, readers of committed records would be shown what was aborted.
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
        """Take over what a snapshot knows of producers; nothing, and False, when it cannot be."""
        if producers_restore(
                &self.producers, snapshot, self.turn.steady_ms, self.turn.now_ms) < 0:
            self.forget_producers()
            return False
        for producer_id, first_offset in producers_open(&self.producers).items():
            self.transactions.begin(producer_id, first_offset)
        return True

    cdef void forget_producers(self):
        producers_free(&self.producers)
        self.transactions = Transactions()

    def roll(self):
        """Close the active segment and begin the next; False when the log has none to close, or
        has to wait until those that it has closed are on the disk.

        Raises StorageError when the next cannot be made.
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
            self.refuse(status)   # what was staged may be lost
            raise error(f"{self.folder}: cannot begin a segment: "
                        f"{(<bytes>strerror(-status)).decode()}")
        self.mark_dirty()
        return True

    cdef int begin_segment(self) noexcept:
        # The old file is cut and synced by the next job; until then it stays in `unsealed`.
        cdef Segment segment
        cdef int status = self.write_staged()
        if status == 0 and file_is_removed(self.active.fd):
            status = -ENOENT   # with its folder: the new one would look like a log that begins here
        if status < 0:
            return status
        self.active.finish_index()
        segment = self.new_segment(self.log_end_offset)
        status = segment.open(True)
        if status == 0 and self.is_preallocated:
            # Where there is no room for all of it, appends will tell when there is none at all.
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
        self.turn.events.append((EVENT_ROLLED, self))
        return 0

    cdef bint may_take_off(self, Segment segment) noexcept:
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
        # Once in the list, however often it was synced until the next look at the list.
        if self.flush_ms != INT64_MAX and not self.is_aging:
            self.is_aging = True
            self.turn.aging.append(self)

    cdef bint ages(self) noexcept:
        self.is_aging = self.unsynced_since_ms > 0 and not (self.is_offline or self.is_deleted)
        if self.is_aging and self.is_sync_due() and not self.job_is_running:
            self.mark_dirty()
        return self.is_aging

    cdef void start_sync(self) noexcept:
        # One job in flight per log; all appended before it starts becomes durable together. It is
        # in flight from here on: to open a file others are closed, and this log is asked to rest.
        cdef Segment sealed
        cdef int status = 0
        self.job_is_running = True
        # (What is open stays where it is among the open files: a sync is no use of it.)
        if self.active.fd < 0:
            status = self.active.open(False)
        self.active.is_settled = False   # nobody closes what the job names
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
            # A file's name must be on the disk before its bytes can count.
            if status == 0:
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
            self.job_is_running = self.is_resting = False
            self.close_folder()
            if is_wanting(status):
                self.turn.wanting.append(self)   # what the sync needs is there again later
            else:
                self.fail(status)
            return
        Py_INCREF(self)  # the job points here until `synced`
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
        """The job has ended: everything it covered is durable, or the log is lost to us."""
        cdef Segment sealed
        self.job_is_running = False
        self.close_folder()
        if self.is_offline or self.is_deleted:
            return
        if self.job.result == 0 and file_is_removed(self.job.fds[0]):
            self.job.result = -ENOENT   # what is synced there nobody finds again
        if self.job.result < 0:
            self.fail(self.job.result)
            return
        if self.job.truncate_to >= 0:
            sealed = <Segment>self.unsealed.pop(0)
            sealed.reserved = sealed.written
            sealed.is_settled = True
            # (A note that finds no room is missed only where that segment is damaged and the
            # broker killed before the next checkpoint.)
            seal_write(self.folder_path, self.segment_after(sealed).base_offset)
        if self.job.target > self.durable_end:
            self.durable_end = self.job.target
        # What came while the sync went on has been waiting since it began, at most.
        self.unsynced_since_ms = (
            0 if self.durable_end == self.log_end_offset else self.job_started_ms)
        if self.is_group_commit:
            self.advance(self.durable_end, self.job_segment, self.job_position,
                         self.job_max_timestamp)
        if self.sync_callbacks:
            call_reached(self, self.sync_callbacks, self.durable_end, True)
        # What is staged is in no file yet: then the end of the turn starts the next sync.
        if self.staged_size == 0 and self.owes_sync():
            self.start_sync()
        elif self.is_resting:
            self.close_active()

    # ---- rest: an idle log holds no descriptor, no reservation and no buffer ------------------

    cdef void rest(self) noexcept:
        cdef int status
        if (self.is_loading or self.is_dirty or self.job_is_running or self.is_resting
                or self.is_offline or self.is_deleted or self.staged_size > 0
                or self.active is None or (self.active.fd < 0 and not self.unsealed)):
            return
        if self.unsealed and self.turn.files.is_making_room:
            return   # to sync them takes descriptors itself
        status = self.trim()
        if status < 0:
            self.fail(status)
            return
        self.is_resting = True
        # A descriptor with unsynced bytes is never closed. (Full segments that nobody has synced
        # are those that a recovery has found, under `os`.)
        if self.durable_end < self.log_end_offset or self.unsealed:
            self.start_sync()
        else:
            self.close_active()

    cdef int trim(self) noexcept:
        # Nothing of the reservation was written to: cutting it off can wait for a sync until a
        # clean stop says that the file ends where the log does.
        cdef int status = 0
        if self.active.reserved > self.active.written:
            status = file_truncate(self.active.fd, self.active.written)
            self.active.reserved = self.active.written
            self.has_unsynced_cut = True
        return status

    cdef void close_active(self) noexcept:
        # Unless it has been written to since it began to rest.
        self.is_resting = False
        if (self.is_dirty or self.durable_end < self.log_end_offset
                or self.active.reserved > self.active.written):
            return
        if index_entries_held(&self.active.index) > INDEX_ENTRIES_HELD_AT_REST:
            self.active.rest_index()
        if self.active.is_index_dirty and self.active not in self.unsynced_indexes:
            self.unsynced_indexes.append(self.active)
        self.active.is_settled = True
        self.active.close()

    cdef void reach(self, int64_t high_watermark) noexcept:
        self.transactions.reached(high_watermark)
        SegmentedLog.reach(self, high_watermark)

    cdef void let_go(self) noexcept:
        self.staged_size = 0
        call_reached(self, self.sync_callbacks, self.durable_end, False)
        AwaitedLog.let_go(self)

    def when_synced(self, int64_t offset, callback):
        """Call back with True once the disk has all below an offset, whatever the topic's
        durability; with False if it cannot.
        """
        if self.is_offline or self.is_deleted:
            callback(False)
        elif offset <= self.durable_end:
            callback(True)
        else:
            self.sync_callbacks.append((offset, callback))
            self.mark_dirty()

    def take_offline(self, str reason):
        """Refuse everything from here on: the log's files cannot be used."""
        if self.is_offline:
            return
        logger.error("log offline topic=%s partition=%d folder=%s error=%s", self.topic,
                     self.partition, self.folder, reason)
        self.is_offline = True
        self.turn.log_changes += 1
        self.let_go()
        self.turn.events.append((EVENT_OFFLINE, self))

    def retire(self):
        """The partition is deleted: refuse everything from here on, and wake who waits."""
        self.is_deleted = True
        self.let_go()

    @property
    def last_stable_offset(self):
        """First offset of the oldest undecided transaction, else the high watermark."""
        return min(self.high_watermark, self.transactions.first_undecided)

    # ---- transactions -------------------------------------------------------------------------

    def admit_transaction(self, int64_t producer_id, int16_t epoch):
        """Take a producer's transactional batches of an epoch until a marker of it is appended."""
        self.transactions.admit(producer_id, epoch)

    def dismiss_transaction(self, int64_t producer_id):
        """Take no more transactional batches of a producer: its transaction is decided."""
        self.transactions.dismiss(producer_id)

    def admits_transaction(self, int64_t producer_id, int16_t epoch):
        """Whether a producer's transactional batches of an epoch are taken."""
        return self.transactions.admits(producer_id, epoch)

    def has_batch(self, bytes records):
        """Whether this repeats one of its producer's last batches here: `append` says where."""
        cdef BatchInfo info
        cdef ProducerBatch original
        return batch_validate(
            <const uint8_t*>PyBytes_AS_STRING(records), PyBytes_GET_SIZE(records), &info
        ) == BATCH_OK and self.check_sequence(&info, &original) == SEQUENCE_DUPLICATE

    cdef bint may_take(self, BatchInfo* info) noexcept:
        """Whether a batch may be appended as far as its producer's transaction goes (KIP-890)."""
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
        transaction) of the log's producers; -1 for what is not known.
        """
        return producers_active(&self.producers, self.turn.steady_ms)

    def active_producer(self, int64_t producer_id):
        """The same of one producer; None when nothing is known of it."""
        return producers_active_one(&self.producers, producer_id, self.turn.steady_ms)

    @property
    def open_transactions(self):
        """First offset of each producer's open transaction."""
        return dict(self.transactions.open)

    # ---- Python's append ----------------------------------------------------------------------

    def append(self, bytes records):
        """Append what a client sent for this partition.

        Returns (status, base offset): status is 0, or ("batch" | "sequence" | "log", number) with
        the BatchStatus, SequenceStatus or LogStatus that refused it, or ("duplicate", end offset)
        for a batch that is already there, whose original base offset is returned, or
        ("transaction", 1 | 0) for a batch outside of its producer's transaction: a transactional
        one that is not admitted, another one while the transaction is open.
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
        if sequence == SEQUENCE_DUPLICATE:
            return ("duplicate", original.base_offset + original.last_offset_delta + 1), (
                original.base_offset)
        if sequence != SEQUENCE_NEXT:
            return ("sequence", sequence), -1
        if not self.may_take(&info):
            return ("transaction", int(info.attributes & ATTRIBUTE_TRANSACTIONAL > 0)), -1
        if self.turn.refuses_clients:
            return ("log", LOG_FULL), -1
        copy = bytearray(records)
        status = self.append_batch(<uint8_t*><char*>copy, &info, &base_offset)
        return (0, base_offset) if status == LOG_OK else (("log", status), -1)

    def append_internal(self, bytes batch):
        """Append a batch of the broker's own and return its base offset.

        Raises TooManyProducers for a batch of one more producer than the log may remember, DiskFull
        while the disk is, and StorageError when the log is offline. A marker needs neither room for its
        producer nor a disk that is not read-only: it frees, and lets its producer go on.
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

    # ---- what storage reads and sets ----------------------------------------------------------

    def sync_indexes(self):
        """Make the indexes of full segments durable, from any thread: a start after a crash does
        not read those segments again. Of the active one, which it reads, the aborted transactions:
        a snapshot may be newer than their markers. Raises StorageError when it fails.
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
            status = segment.finish_index()   # what could not be written when it was full
            if status == 0:
                with nogil:
                    status = segment.sync_index()
            if status < 0:
                raise StorageError(f"{self.folder}: cannot sync an index: "
                                   f"{(<bytes>strerror(-status)).decode()}")
            self.unsynced_indexes.remove(segment)

    @property
    def has_unsynced_indexes(self):
        """Whether `sync_indexes` has something to do."""
        return len(self.unsynced_indexes) > 0 or self.active.has_unsynced_aborts

    @property
    def needs_sync(self):
        """Whether the disk may not have all of the log yet, or more than it."""
        return self.has_unsynced_cut or self.durable_end < self.log_end_offset or (
            len(self.unsealed) > 0)

    @property
    def producer_ends(self):
        """(producer id, epoch, last offset) of the producers' newest batches."""
        return producers_ends(&self.producers)

    def producer_snapshot(self):
        """Return (log end offset, content of the `.snapshot` file of that name)."""
        return self.log_end_offset, producers_snapshot(&self.producers)

    @property
    def unsealed_count(self):
        """How many full segments are not wholly on the disk yet."""
        return PyList_GET_SIZE(self.unsealed)

    @property
    def producer_count(self):
        """How many producers the log remembers."""
        return self.producers.count
