"""The state of one partition in memory: its segments, offsets and producers.

    log start offset <= high watermark <= durable end (group-commit) <= log end offset

An append assigns the next offsets, adds the batch to the active segment and makes the log dirty;
synced_log.pyx writes and syncs it. Small batches are staged until the end of the loop's turn.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_SIZE
from cpython.object cimport PyObject
from libc.errno cimport EMFILE
from libc.stdint cimport (
    INT32_MAX, INT64_MAX, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t,
)

from broker._native.kernel.checksum cimport crc32c_extend
from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.file_ops cimport is_no_space
from broker._native.log.earlier_batches cimport earlier_batches
from broker._native.log.offset_index cimport TIME_ENTRY_SIZE, index_entries
from broker._native.log.producer_state cimport (
    PRODUCER_BATCHES_KEPT,
    SEQUENCE_DUPLICATE,
    SEQUENCE_NEXT,
    SEQUENCE_OUT_OF_ORDER,
    ProducerBatch,
    ProducerEntry,
    SequenceStatus,
    producer_batch,
    producers_active,
    producers_active_one,
    producers_begin,
    producers_check,
    producers_complete,
    producers_end,
    producers_ends,
    producers_find,
    producers_free,
    producers_have_room,
    producers_open,
    producers_restore,
    producers_snapshot,
    producers_update,
)
from broker._native.log.replicated_log cimport ReplicatedLog
from broker._native.log.segment cimport Segment
from broker._native.log.segmented_log cimport LogEnd, LogSlice
from broker._native.log.transaction_index cimport AbortedTransaction
from broker._native.log.transactions cimport Marker, Transactions, read_marker
from broker._native.log.turn cimport (
    LOG_CORRUPT,
    LOG_FULL,
    LOG_GAP,
    LOG_LOADING,
    LOG_NOT_LED,
    LOG_OFFLINE,
    LOG_OK,
    LogStatus,
    Turn,
    may_acknowledge,
)
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_EMPTY,
    BATCH_OK,
    BATCH_TRUNCATED,
    BatchInfo,
    BatchStatus,
    batch_assign,
    batch_check_crc,
    batch_header,
    batch_last_offset,
    batch_validate,
)

import os

from broker.model import limits
from broker.model.errors import DiskFull, StorageError, TooFewReplicas, TooManyProducers
from broker.model.log_results import AppendResult, AppendStatus, LogState

APPENDED, DUPLICATE = AppendStatus.APPENDED, AppendStatus.DUPLICATE

_STATE_OF = {LOG_OFFLINE: "offline", LOG_LOADING: "loading", LOG_NOT_LED: "not led here any more"}

cdef enum:    # the base of an AppendStatus
    OF_BATCH = 10
    OF_SEQUENCE = 20
    OF_LOG = 30

cdef int64_t SEGMENT_BYTES_MAX = limits.SEGMENT_BYTES_MAX


@cython.final
cdef class PartitionLog(ReplicatedLog):
    """One partition's log. It is created empty and closed; recovery.pyx opens it."""

    def __cinit__(self, Turn turn, str topic, bytes topic_id, int32_t partition, str folder, *,
                  uint32_t producer_ids_max=limits.PRODUCER_IDS_PER_PARTITION_MAX,
                  int64_t producer_expiration_ms=24 * 3600 * 1000, **settings):
        self.turn = turn
        self.disk = turn.disk
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.folder = folder
        self.folder_path = os.fsencode(folder)
        self.transactions = Transactions()
        self.configure(**settings)
        self.producers.count_max = producer_ids_max
        self.producers.expiration_ms = producer_expiration_ms

    def __dealloc__(self):
        producers_free(&self.producers)

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
                  int64_t flush_messages=INT64_MAX, int64_t flush_ms=INT64_MAX,
                  int32_t min_isr=1):
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
        self.min_isr = min_isr
        if self.replication is not None:
            self.check_min_isr()
            self.move_watermark()
        if self.unsynced_since_ms > 0:
            self.begin_to_age()
        if is_group_commit != was_group_commit and self.active is not None and (
                not self.is_loading):
            # Batches appended under the old setting are synced, or made visible, at the turn's end.
            self.mark_dirty()

    # ---- append -------------------------------------------------------------------------------

    cdef SequenceStatus check_sequence(self, BatchInfo* info, ProducerBatch* duplicate) noexcept:
        """Compare a batch with its producer's sequence; without a producer id it is SEQUENCE_NEXT.
        """
        cdef SequenceStatus status
        if info.producer_id < 0:
            return SEQUENCE_NEXT
        status = producers_check(
            &self.producers, info.producer_id, info.producer_epoch, info.base_sequence,
            info.record_count, self.turn.steady_ms, duplicate)
        if status == SEQUENCE_OUT_OF_ORDER and self.complete_producer(info.producer_id):
            status = producers_check(
                &self.producers, info.producer_id, info.producer_epoch, info.base_sequence,
                info.record_count, self.turn.steady_ms, duplicate)
        return status

    cdef bint complete_producer(self, int64_t producer_id) noexcept:
        """Look up the batches of a known producer that its snapshot has not kept, once.

        Return whether some were found.
        """
        cdef ProducerBatch earlier[PRODUCER_BATCHES_KEPT]
        cdef ProducerEntry* entry = producers_find(&self.producers, producer_id)
        cdef int count
        if not entry.is_restored or entry.batch_count == PRODUCER_BATCHES_KEPT or self.is_loading:
            return False
        entry.is_restored = False
        count = earlier_batches(
            self.segments, entry.batches[entry.oldest].base_offset, producer_id, entry.epoch,
            PRODUCER_BATCHES_KEPT - entry.batch_count, earlier)
        producers_complete(entry, earlier, count)
        return count > 0

    cdef bint accepts(
            self, BatchInfo* info, ProducerBatch* original, bint* is_duplicate) noexcept:
        """Return whether a client's batch can be appended, by its header: its size, times, sequence
        and transaction. `original` is set for a duplicate, which needs no append.
        """
        cdef SequenceStatus sequence
        if <int64_t>info.size > self.segment_bytes_max or not self.accepts_times(info):
            return False
        sequence = self.check_sequence(info, original)
        is_duplicate[0] = sequence == SEQUENCE_DUPLICATE
        return is_duplicate[0] or (sequence == SEQUENCE_NEXT and self.fits_transaction(info))

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
        cdef Segment segment
        cdef LogStatus ready
        cdef int status
        if self.is_loading:
            return LOG_LOADING
        if self.service_status() != LOG_OK:
            return self.service_status()
        if self.is_stopped or not may_acknowledge(self.turn, self.broker_epoch):
            return LOG_NOT_LED
        ready = make_ready(self, info, self.log_end_offset)
        if ready != LOG_OK:
            return ready
        segment = self.active
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
        self.bytes_in += info.size
        self.records_in += <uint64_t>info.record_count
        appended(self, segment, batch, info, self.log_end_offset)
        return LOG_OK

    # ---- copies -------------------------------------------------------------------------------

    cdef LogStatus append_replicated(
            self, const uint8_t* data, size_t size, int64_t high_watermark, int64_t log_start,
            int32_t leader_epoch) noexcept:
        """Append whole batches of the leader of an epoch, as they are; a rest of one is ignored.

        `high_watermark` and `log_start` are the leader's. After a failure, the batches before the
        one that failed are in the log.
        """
        cdef LogStatus status
        if self.is_loading:
            return LOG_LOADING
        if self.storage_status() != LOG_OK:
            return self.storage_status()
        if not self.is_follower or leader_epoch != self.known_epoch:
            return LOG_NOT_LED
        status = self.append_copies(data, size, high_watermark, leader_epoch)
        self.follow_leader(high_watermark, log_start)
        return status

    cdef LogStatus append_copies(
            self, const uint8_t* data, size_t size, int64_t high_watermark,
            int32_t leader_epoch) noexcept:
        # Batches that follow each other in one segment are written together: a run. A control batch
        # is a run of its own, because its entry for an aborted transaction precedes its write.
        cdef Cursor cursor
        cdef BatchInfo info
        cdef const uint8_t* batch
        cdef const uint8_t* run = data
        cdef int64_t end_offset = self.log_end_offset
        cdef LogStatus status
        cdef BatchStatus found
        cursor.next = data
        cursor.left = size
        while True:
            batch = cursor.next
            found = batch_header(&cursor, &info)
            if found == BATCH_EMPTY or found == BATCH_TRUNCATED:
                return self.append_run(run, <size_t>(batch - run))
            status = self.check_copy(
                batch, &info, found, end_offset, high_watermark, leader_epoch)
            if status == LOG_OK and (
                    batch == run or info.attributes & ATTRIBUTE_CONTROL
                    or info.leader_epoch != self.leader_epoch
                    or self.run_is_full(&info, <int64_t>(batch - run))):
                status = self.append_run(run, <size_t>(batch - run))
                run = batch
                if status == LOG_OK:
                    status = make_ready(self, &info, info.base_offset)
                if status == LOG_OK:
                    self.enter_epoch(info.leader_epoch, info.base_offset)
            elif status != LOG_OK:
                self.append_run(run, <size_t>(batch - run))
            if status != LOG_OK:
                return status
            end_offset = batch_last_offset(&info) + 1
            if info.attributes & ATTRIBUTE_CONTROL:
                status = self.append_run(run, <size_t>(cursor.next - run))
                run = cursor.next
                if status != LOG_OK:
                    return status

    cdef LogStatus check_copy(
            self, const uint8_t* batch, BatchInfo* info, BatchStatus found, int64_t end_offset,
            int64_t high_watermark, int32_t leader_epoch) noexcept:
        # Batches are missing where a leader's log was compacted, which is below its high watermark.
        # Anywhere else a gap is a damaged base offset: the CRC does not cover it.
        if (found != BATCH_OK or info.last_offset_delta < 0 or info.base_offset < 0
                or info.base_offset > INT64_MAX - INT32_MAX - 1
                or not self.leader_epoch <= info.leader_epoch <= leader_epoch
                or batch_check_crc(batch, info) != BATCH_OK):
            return LOG_CORRUPT
        if info.base_offset == end_offset or end_offset < info.base_offset <= high_watermark:
            return LOG_OK
        return LOG_GAP

    cdef bint run_is_full(self, BatchInfo* info, int64_t run_size) noexcept:
        return self.must_roll(info, info.base_offset) or (
            self.active.size + run_size + <int64_t>info.size > self.segment_bytes_max)

    cdef LogStatus append_run(self, const uint8_t* data, size_t size) noexcept:
        cdef Segment segment = self.active
        cdef Cursor cursor
        cdef BatchInfo info
        cdef const uint8_t* batch = data
        cdef int status
        if size == 0:
            return LOG_OK
        cursor.next = data
        cursor.left = size
        batch_header(&cursor, &info)
        segment.is_settled = False   # staged bytes keep the file open
        status = self.put(segment, data, size)
        if status == 0 and info.attributes & ATTRIBUTE_CONTROL:
            status = self.note_abort(segment, data, &info, info.base_offset)
            if is_no_space(status):
                self.staged_size -= <uint32_t>size   # a marker is small, so it was staged
        if status < 0:
            return self.refuse(status)
        self.bytes_copied += size
        while True:
            appended(self, segment, batch, &info, info.base_offset)
            batch = cursor.next
            if batch_header(&cursor, &info) != BATCH_OK:
                return LOG_OK

    cdef void enter_epoch(self, int32_t epoch, int64_t base_offset) noexcept:
        # Note that the batches from here on are of this leader epoch.
        if epoch > self.leader_epoch or PyList_GET_SIZE(self.epochs) == 0:
            self.begin_epoch(epoch, base_offset)

    # ---- rolls --------------------------------------------------------------------------------

    cdef bint must_roll(self, BatchInfo* info, int64_t base_offset) noexcept:
        cdef Segment segment = self.active
        cdef int64_t since
        if base_offset + info.last_offset_delta - segment.base_offset > INT32_MAX:
            return True
        if segment.size == 0:
            return False
        if segment.size + <int64_t>info.size > self.segment_bytes_max:
            return True
        if index_entries(&segment.index) >= self.index_entries_max:
            return True
        # Age by the records' timestamps, as in Kafka; by the clock if they have none.
        since = segment.roll_time()
        if since >= 0 and info.max_timestamp >= 0:
            return info.max_timestamp - since > self.segment_ms - self.jitter_of(segment)
        return segment.created_ms > 0 and (
            self.turn.steady_ms - segment.created_ms > self.segment_ms - self.jitter_of(segment))

    cdef bint may_roll(self, BatchInfo* info, int64_t base_offset) noexcept:
        """Return whether the log may roll now; else it waits for syncs, and the segment grows.

        It does not wait when the segment can hold no more.
        """
        cdef Segment segment = self.active
        return self.turn.files.may_hold_more(PyList_GET_SIZE(self.unsealed)) or (
            segment.size + <int64_t>info.size > SEGMENT_BYTES_MAX
            or base_offset + info.last_offset_delta - segment.base_offset > INT32_MAX)

    cdef int64_t jitter_of(self, Segment segment) noexcept:
        # A hash of the name instead of a random number spreads logs as well, and is reproducible.
        cdef uint32_t spread
        if self.segment_jitter_ms == 0:
            return 0
        spread = crc32c_extend(<uint32_t>segment.base_offset,
                               <const uint8_t*>PyBytes_AS_STRING(self.folder_path),
                               PyBytes_GET_SIZE(self.folder_path))
        return min(self.segment_ms, spread % (<uint64_t>self.segment_jitter_ms + 1))

    cdef void update_producer(
            self, const uint8_t* data, BatchInfo* info, int64_t base_offset) noexcept:
        """Update the state of a batch's producer: its last batches and its transaction."""
        cdef ProducerBatch batch
        cdef Marker marker
        if info.producer_id < 0:
            return
        if info.attributes & ATTRIBUTE_CONTROL:
            if read_marker(data, info, &marker):
                producers_end(&self.producers, info.producer_id, info.producer_epoch,
                              marker.coordinator_epoch, self.turn.steady_ms)
                self.transactions.end(info.producer_id, base_offset + info.last_offset_delta)
            return
        if info.base_sequence >= 0:
            batch = producer_batch(info, base_offset)
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

    cdef void reach(self, int64_t high_watermark) noexcept:
        self.transactions.reached(high_watermark)
        ReplicatedLog.reach(self, high_watermark)

    cdef void lower_watermark(self, const LogEnd* place) noexcept:
        ReplicatedLog.lower_watermark(self, place)
        self.transactions.lowered(self.high_watermark)

    cdef void dismiss_transactions(self) noexcept:
        self.transactions.dismiss_all()

    def retire(self):
        """Mark the log as deleted: refuse all requests from here on, and fail the waiters."""
        self.is_deleted = True
        self.fail_waiters()

    def release(self):
        """Mark the log as led by another broker: refuse all requests, and fail the waiters.

        Its object is not used again: if this broker leads the partition again, it opens a new one.
        Its files are closed, unless it is offline: a reader may keep the object.
        """
        cdef Segment segment
        self.is_released = True
        self.retire()
        if not self.is_offline and not self.job_is_running:
            for segment in self.segments:
                segment.close()

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

    def append(self, bytes records, *, bint needs_replicas=True):
        """Append a client's batch; return its AppendResult, without an append time.

        With `needs_replicas`, it is refused while too few replicas are in sync.
        """
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
        if self.lacks_replicas and needs_replicas:
            return AppendResult(AppendStatus.LOG_TOO_FEW_REPLICAS)
        sequence = self.check_sequence(&info, &original)
        if sequence == SEQUENCE_DUPLICATE:
            return AppendResult(DUPLICATE, original.base_offset,
                                original.base_offset + original.last_offset_delta + 1)
        if sequence == SEQUENCE_OUT_OF_ORDER and self.is_led_lately():
            return AppendResult(AppendStatus.LOG_NOT_LED)
        if sequence != SEQUENCE_NEXT:
            return AppendResult(AppendStatus(OF_SEQUENCE + sequence))
        if not self.fits_transaction(&info):
            return AppendResult(AppendStatus.TRANSACTION_NOT_ADMITTED
                                if info.attributes & ATTRIBUTE_TRANSACTIONAL
                                else AppendStatus.TRANSACTION_OPEN)
        if self.disk.refuses_clients:
            return AppendResult(AppendStatus.LOG_FULL)
        copy = bytearray(records)
        status = self.append_batch(<uint8_t*><char*>copy, &info, &base_offset)
        if status != LOG_OK:
            return AppendResult(AppendStatus(OF_LOG + status))
        return AppendResult(APPENDED, base_offset, base_offset + info.last_offset_delta + 1)

    def append_internal(self, bytes batch):
        """Append a batch of the broker's own and return its base offset.

        Raises TooManyProducers for a batch of a producer above the log's limit, DiskFull while the
        disk is full, TooFewReplicas while too few are in sync, and StorageError when the log is
        offline. A marker is exempt from the producer limit and from `is_read_only`, because it ends
        a transaction and lets its producer continue.
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
        if self.disk.is_read_only and not info.attributes & ATTRIBUTE_CONTROL:
            raise DiskFull(f"{self!r}: the disk is full")
        if self.lacks_replicas:
            raise TooFewReplicas(f"{self!r}: fewer replicas are in sync than min.insync.replicas")
        status = self.append_batch(<uint8_t*><char*>copy, &info, &base_offset)
        if status == LOG_FULL:
            raise DiskFull(f"{self!r}: the disk is full")
        if status != LOG_OK:
            raise StorageError(f"{self!r} is {_STATE_OF[status]}")
        return base_offset

    # ---- replicas from Python ------------------------------------------------------------------

    def copy(self, bytes data, *, int64_t high_watermark, int64_t log_start=0, leader_epoch=None):
        """Append batches of the leader as `append_replicated` does; return the LogState."""
        return LogState(self.append_replicated(
            <const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), high_watermark,
            log_start, self.known_epoch if leader_epoch is None else leader_epoch))

    def report(self, int32_t replica, int64_t offset, int64_t replica_epoch=-1, *,
               int64_t log_start=0):
        """Note that a replica has everything below an offset on its disk; return the LogState."""
        return LogState(self.note_position(replica, replica_epoch, offset, log_start))

    def read_for_replica(self, int64_t offset, int64_t size_max):
        """Return whole batches from an offset on, up to the end of what is in the files.

        Raises IndexError for an offset outside of the log, StorageError when it cannot be read.
        """
        cdef LogSlice found
        cdef PyObject* owner
        cdef LogStatus status = self.slice_for_replica(offset, size_max, True, &found, &owner)
        return self.take_slice(offset, status, &found, owner)

    def divergence(self, int32_t epoch, int64_t offset, int64_t log_start):
        """Return (epoch, end) of what a copy that ends with these has in common; None: all."""
        cdef int32_t known = -1
        cdef int64_t end = -1
        return (known, end) if self.diverges(epoch, offset, log_start, &known, &end) else None

    def must_begin_anew(self, int32_t replica, int32_t epoch, int64_t offset, int64_t log_start):
        """Return whether a replica's copy, with these ends, cannot be compared with this log."""
        return self.cannot_compare(replica, epoch, offset, log_start)

    # ---- for broker.storage -------------------------------------------------------------------

    @property
    def producer_ends(self):
        """(producer id, epoch, last offset) of each producer's newest batch."""
        return producers_ends(&self.producers)

    def producer_snapshot(self):
        """Return (log end offset, content of its `.snapshot` file)."""
        return self.log_end_offset, producers_snapshot(&self.producers)

    @property
    def producer_count(self):
        """How many producers the log has the state of."""
        return self.producers.count


cdef inline LogStatus make_ready(
        PartitionLog log, BatchInfo* info, int64_t base_offset) noexcept:
    """Open the active segment for a batch, after a roll if one is due."""
    cdef int status
    if log.is_full:
        log.turn.report_full()
        return LOG_FULL
    # A file stays open from a write until its sync, so here `count_max` is a hard limit.
    if log.active.fd < 0 and not log.turn.files.make_room():
        return log.refuse(-EMFILE)
    status = log.active.open(False)
    if status == 0 and log.must_roll(info, base_offset):
        if log.may_roll(info, base_offset):
            if base_offset - log.log_end_offset > INT32_MAX:
                log.log_end_offset = base_offset   # no batch is in between
            status = log.begin_segment()
        else:
            status = log.active.open(False)   # `may_hold_more` may have closed it
    return LOG_OK if status == 0 else log.refuse(status)


cdef inline void appended(PartitionLog log, Segment segment, const uint8_t* batch, BatchInfo* info,
                          int64_t base_offset) noexcept:
    """Update the state of the log for a batch at its end, in its active segment."""
    if segment.created_ms == 0:
        segment.created_ms = log.turn.steady_ms
    segment.note(info, base_offset, log.index_interval_bytes)
    log.update_producer(batch, info, base_offset)
    log.log_end_offset = base_offset + info.last_offset_delta + 1
    if log.unsynced_since_ms == 0:
        log.unsynced_since_ms = log.turn.steady_ms
        log.begin_to_age()
    log.mark_dirty()
