"""How the appends of a log reach the disk: they are staged, written together, and synced.

    put -> flush, at the end of the turn -> start_sync -> the commit thread -> synced

What an acknowledgement waits for depends on the durability setting:

    os            the write: the page cache has the bytes, and the high watermark advances
    group-commit  a sync by the commit thread: everything appended before the sync began is then
                  durable, and the high watermark advances to there

A failed write or sync takes the log offline until a restart: what the page cache still has may not
be on the disk, so nothing of it may be acknowledged (docs/durability.md). No sync is ever retried.

A full disk is not a failure. An append that finds it full is refused and has changed nothing.
Staged batches already have their offsets, so they stay staged (`is_full`): they are not visible,
appends are refused, and the write is retried after Turn.retry_full. While little space is left
(DiskState.is_tight), disk space is allocated before a batch is accepted, so that this does not
happen.

A roll opens the next segment at once. The same job that makes the first batch of the new segment
durable truncates the preallocated tail of the old file and syncs the old file, the new file and the
folder.
"""

from cpython.list cimport PyList_GET_SIZE
from cpython.ref cimport Py_INCREF
from libc.errno cimport ENOENT, ENOMEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcpy
from posix.fcntl cimport O_DIRECTORY, O_RDONLY

from broker._native.kernel.file_ops cimport (
    file_close,
    file_is_removed,
    file_truncate,
    is_no_space,
)
from broker._native.log.offset_index cimport index_free_tail
from broker._native.log.seal cimport seal_write
from broker._native.log.segment cimport Segment
from broker._native.log.segmented_log cimport SegmentedLog, must, reason_of
from broker._native.log.turn cimport (
    LOG_FULL,
    LOG_OFFLINE,
    AwaitedLog,
    LogStatus,
    call_reached,
    is_transient,
)

import logging

from broker.model import limits
from broker.model.errors import DiskFull, StorageError
from broker.model.log_results import LogEvent

logger = logging.getLogger(__name__)

cdef size_t STAGED_BATCH_BYTES_MAX = limits.STAGED_BATCH_BYTES_MAX
cdef size_t STAGED_BYTES_MAX = limits.STAGED_BYTES_MAX
cdef uint32_t STAGED_BYTES_MIN = limits.STAGED_BYTES_MIN
cdef int64_t TAIL_RESERVE_BYTES_MIN = limits.TAIL_RESERVE_BYTES_MIN
cdef int64_t TAIL_RESERVE_BYTES_MAX = limits.TAIL_RESERVE_BYTES_MAX
cdef int32_t INDEX_ENTRIES_HELD_IDLE = limits.INDEX_ENTRIES_HELD_IDLE


cdef class SyncedLog(SegmentedLog):
    """The writes and syncs of a log; PartitionLog adds the checks of what is appended."""

    def __cinit__(self):
        self.unsealed = []
        self.unsynced_indexes = []
        self.sync_callbacks = []
        self.job.owner = <void*>self

    def __dealloc__(self):
        free(self.staged)

    cdef void mark_dirty(self) noexcept:
        if not self.is_dirty:
            self.is_dirty = True
            self.turn.dirty.append(self)
            self.turn.request_end()

    def end_loading(self):
        """Serve the recovered log and wake its watchers; sync the full segments that it has found.

        Under `os` nothing else may do that: what is read all the time is never idle.
        """
        AwaitedLog.end_loading(self)
        if self.unsealed:
            self.mark_dirty()

    # ---- staged batches -------------------------------------------------------------------------

    cdef int put(self, Segment segment, const uint8_t* batch, size_t size) noexcept:
        # Stage small batches, to write them together at the end of the turn.
        cdef int status
        cdef uint32_t capacity
        cdef void* grown
        if self.disk.is_tight:
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
                return -ENOMEM
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
        self.disk.has_failed = True
        self.turn.report_full()

    cdef LogStatus refuse(self, int status) noexcept:
        """Return the result of an append that failed with a status."""
        if is_no_space(status):
            self.has_unsynced_cut = True
            self.disk.has_failed = True
            self.turn.report_full()
            return LOG_FULL
        # Without a descriptor nothing has been written, and the next append may succeed.
        self.fail_unless_transient(status)
        return LOG_OFFLINE

    # ---- rolls ----------------------------------------------------------------------------------

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
            raise error(f"{self.folder}: cannot begin a segment: {reason_of(status)}")
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
        if self.is_offline or self.is_deleted or self.is_held:
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
        if self.is_switching:
            return
        if self.is_replicated:
            self.written_for_replicas()
        elif not self.is_group_commit and not self.awaits_role:
            self.advance(self.log_end_offset, self.active, self.active.written,
                         self.active.max_timestamp)
        if not self.job_is_running and (self.is_sync_due() or self.owes_sync()):
            self.start_sync()

    cdef void written_for_replicas(self) noexcept:
        """Process that everything appended to a replicated log is in its files."""

    cdef void synced_for_replicas(self) noexcept:
        """Process that `durable_end` of a replicated log has moved to the end of the job."""

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
        self.job_bytes = self.bytes_in + self.bytes_copied
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
                self.job.fds[2] = self.turn.files.open_path(
                    self.folder_path, O_RDONLY | O_DIRECTORY)
                self.job.is_folder[2] = 1
                status = min(self.job.fds[2], 0)
            if PyList_GET_SIZE(self.unsealed) == 1:
                self.job.fds[1] = self.active.fd
            else:
                # Several full segments are synced one per job: this job covers only the first.
                self.job.target = self.segment_after(sealed).base_offset
                self.job_bytes = self.synced_bytes   # how much it covers is not known
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
        self.synced_bytes = self.job_bytes
        # Batches appended during the sync have been unsynced since its start, at most.
        self.unsynced_since_ms = (
            0 if self.durable_end == self.log_end_offset else self.job_started_ms)
        if self.is_replicated:
            self.synced_for_replicas()
        elif self.is_group_commit and not self.awaits_role:
            self.advance(self.durable_end, self.job_segment, self.job_position,
                         self.job_max_timestamp)
        if self.sync_callbacks:
            call_reached(self, self.sync_callbacks, self.durable_end, True)
        # With staged bytes, which are in no file yet, the end of the turn starts the next sync.
        if self.staged_size == 0 and not self.is_switching and self.owes_sync():
            self.start_sync()
        elif self.is_going_idle:
            self.close_active()

    cdef void fail_waiters(self) noexcept:
        self.staged_size = 0
        call_reached(self, self.sync_callbacks, self.durable_end, False)
        AwaitedLog.fail_waiters(self)

    @property
    def unsynced_bytes(self):
        """Bytes appended since the start that a power cut could still take."""
        if self.durable_end >= self.log_end_offset:
            return 0
        return self.bytes_in + self.bytes_copied - self.synced_bytes

    @property
    def is_syncing(self):
        """Whether a sync thread has its files."""
        return self.job_is_running

    def when_synced(self, int64_t offset, callback):
        """Call back with True once everything below an offset is synced, whatever the topic's
        durability, and below the high watermark; with False if that fails.
        """
        if self.is_replicated:
            callback = replicated(self, offset, callback)
        if self.is_offline or self.is_deleted:
            callback(False)
        elif offset <= self.durable_end:
            callback(True)
        else:
            self.sync_callbacks.append((offset, callback))
            self.mark_dirty()

    # ---- held while a thread cuts it (truncation.pyx) -------------------------------------------

    def hold(self):
        """Leave the files of a log that is loading to one thread; False while they are written or
        synced, or the log begins to use other ones (moving.pyx): try again.
        """
        if self.job_is_running or self.is_switching or (self.is_dirty and not self.is_held):
            return False
        self.is_held = True
        return True

    def end_hold(self):
        """Write and sync the log again; what waits for offsets that were cut is notified."""
        cdef list cut = [each for each in self.sync_callbacks if each[0] > self.log_end_offset]
        self.is_held = False
        self.sync_callbacks = [each for each in self.sync_callbacks if each not in cut]
        call_reached(self, cut, self.durable_end, False)
        call_reached(self, self.sync_callbacks, self.durable_end, True)

    # ---- an idle log holds no descriptor, no preallocated tail and no buffer ------------------

    cdef void go_idle(self) noexcept:
        cdef int status = 0
        if (self.is_loading or self.is_dirty or self.job_is_running or self.is_going_idle
                or self.is_switching or self.is_offline or self.is_deleted or self.staged_size > 0
                or self.active is None or (self.active.fd < 0 and not self.unsealed)):
            return
        if self.unsealed and self.turn.files.is_making_room:
            return   # a sync of them needs descriptors itself
        if self.active.reserved > self.active.written:
            # The preallocated tail was never written, so its truncation need not be synced before a
            # clean stop.
            status = file_truncate(self.active.fd, self.active.written)
            self.active.reserved = self.active.written
            self.has_unsynced_cut = True
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

    cdef void close_active(self) noexcept:
        # Unless it has been written to since `go_idle`.
        self.is_going_idle = False
        if (self.is_dirty or self.durable_end < self.log_end_offset
                or self.active.reserved > self.active.written):
            return
        if self.active.index.tail_count > INDEX_ENTRIES_HELD_IDLE:
            if self.active.finish_index() == 0:
                index_free_tail(&self.active.index)
        if self.active.is_index_dirty and self.active not in self.unsynced_indexes:
            self.unsynced_indexes.append(self.active)
        self.active.is_settled = True
        self.active.close()

    # ---- for broker.storage ---------------------------------------------------------------------

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
            must(status, self, "cannot sync the aborted transactions")
        for segment in list(self.unsynced_indexes):
            status = segment.finish_index()   # entries that could not be written before
            if status == 0:
                with nogil:
                    status = segment.sync_index()
            must(status, self, "cannot sync an index")
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
    def unsealed_count(self):
        """How many full segments are not wholly on the disk yet."""
        return PyList_GET_SIZE(self.unsealed)


cdef object replicated(SyncedLog log, int64_t offset, callback):
    """Return a callback of a sync that calls another one once the high watermark is there, too."""
    def synced(is_good):
        if is_good and not log.lacks_replicas:
            log.when_durable(offset, callback)
        else:
            callback(False)
    return synced
