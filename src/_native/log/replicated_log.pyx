"""The role of a log among the replicas of its partition: the only one, the leader's, or a copy.

    the only replica   the high watermark is the durable end; `replication` is None
    the leader         it is the smallest durable end of the replicas in sync (replication.pyx)
    a follower         it is that of the leader, as far as this replica has it on its disk

The durable end is the end of what the topic's durability asks for: a sync under group-commit, a
write under `os`. The high watermark never goes back, except when a follower is told that its last
records are not in its leader's log (truncation).

What an acknowledgement waits for depends on what the client asks for: all replicas in sync
(`wait`, `when_durable`), or only this one (`wait_local`, `when_kept`). The first kind fails at once
when the ISR has too few members, and `wait` when its time is over.
"""

from cpython.object cimport PyObject
from libc.stdint cimport INT64_MAX, int32_t, int64_t

from broker._native.log.replication cimport Follower, Replication
from broker._native.log.segment cimport Segment
from broker._native.log.segmented_log cimport LogEnd, LogSlice
from broker._native.log.synced_log cimport SyncedLog
from broker._native.log.turn cimport (
    LOG_LOADING,
    LOG_NOT_LED,
    LOG_NOT_REPLICA,
    LOG_OK,
    LOG_OUT_OF_RANGE,
    LOG_TOO_FEW_REPLICAS,
    AckWaiter,
    LogStatus,
    acks_add,
    acks_expire,
    acks_fail,
    acks_reach,
    AwaitedLog,
    call_reached,
)

from broker.model.errors import StorageError


cdef class ReplicatedLog(SyncedLog):
    """The roles of a log; PartitionLog adds the checks of what is appended."""

    def __cinit__(self):
        self.known_epoch = -1
        self.min_isr = 1

    # ---- roles ----------------------------------------------------------------------------------

    def lead(self, int32_t epoch, int32_t self_id, list replicas not None, list isr not None,
             int32_t committed=-1):
        """Lead the partition from a leader epoch on, or with other replicas in the same one.

        `isr` are the replicas in sync, with those whose addition is being written; `committed` is
        how many the stored ISR has, by default as many. With `replicas` of this broker alone, the
        log is the only replica.

        Raises ValueError for an epoch older than the log's.
        """
        cdef bint is_new = epoch > self.known_epoch or self.is_follower
        cdef bint has_forgotten
        if epoch < max(self.known_epoch, self.leader_epoch):
            raise ValueError(f"epoch {epoch} of {self!r} is below {self.leader_epoch} or "
                             f"{self.known_epoch}")
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.start_epoch(epoch)
        self.known_epoch = epoch
        if is_new:
            self.is_follower = self.is_stopped = False
            if self.turn.serves_until_ns != INT64_MAX:
                self.led_from_ms = self.turn.steady_ms
            self.turn.log_changes += 1
        if replicas == [self_id]:
            self.end_replication()
            return
        self.begin_replication()
        has_forgotten = self.replication.set_replicas(self_id, replicas, self.turn.steady_ms) > 0
        if is_new:
            has_forgotten = True
            self.replication.forget_positions(self.turn.steady_ms)
            self.replication.epoch_start = self.log_end_offset
        if has_forgotten:
            self.terms += 1
            self.wake_all()      # who reads for a replica, and knows its position, notes it again
        self.set_isr(isr, len(isr) if committed < 0 else committed)

    def follow(self, int32_t epoch):
        """Copy the log of the leader of an epoch: accept no appends, and acknowledge nothing more.

        Raises ValueError for an epoch older than that of the log's role.
        """
        cdef bint is_new = epoch > self.known_epoch
        if epoch < self.known_epoch:
            raise ValueError(f"epoch {epoch} of {self!r} is below {self.known_epoch}")
        self.known_epoch = epoch
        if self.is_follower:
            if is_new:
                self.forget_leader()
            return
        self.begin_replication()
        self.is_follower = True
        self.is_stopped = self.lacks_replicas = False
        self.replication.set_replicas(-1, [], 0)
        self.replication.epoch_start = 0
        self.forget_leader()
        self.dismiss_transactions()
        self.turn.log_changes += 1
        self.fail_waiters_with(LOG_NOT_LED)

    cdef void forget_leader(self) noexcept:
        # After an unclean election another leader may have less than the one before has told.
        self.replication.leader_watermark = self.high_watermark
        self.replication.leader_start = -1

    cdef void dismiss_transactions(self) noexcept:
        """Accept no more batches of any transaction."""

    def stop_accepting(self):
        """Refuse appends until it leads again, in another epoch or after it has followed: another
        broker will lead the partition.

        Replicas are served and acknowledgements are sent as before.
        """
        self.is_stopped = True

    def set_isr(self, list isr not None, int32_t committed):
        """Set which replicas are in sync, and how many members the stored ISR has.

        Nothing for a log without other replicas, or a follower.
        """
        if not self.is_replicated or self.is_follower:
            return
        self.replication.set_in_sync(isr)
        self.replication.committed = committed
        self.check_min_isr()
        self.move_watermark()
        self.check_starts()
        self.list_lagging()
        self.turn.request_end()

    cdef void check_min_isr(self) noexcept:
        self.lacks_replicas = not self.is_follower and self.replication.is_below(self.min_isr)
        if not self.lacks_replicas:
            return
        if self.acks.head != NULL:
            acks_fail(self, &self.acks, LOG_TOO_FEW_REPLICAS)
        if self.callbacks:
            call_reached(self, self.callbacks, self.high_watermark, False)

    cdef int begin_replication(self) except -1:
        cdef LogEnd end
        cdef AckWaiter* waiter = self.acks.head
        self.awaits_role = False
        if self.replication is not None:
            return 0
        end = self.visible_end()
        self.replication = Replication()
        self.replication.written = self.replication.synced = end
        self.replication.synced.offset = min(end.offset, self.durable_end)
        self.is_replicated = True
        while waiter != NULL:    # until now nothing has limited the time of these
            self.note_wait(waiter)
            waiter = waiter.next
        if self.is_dirty or self.staged_size > 0 or self.active is None or (
                self.is_switching and not self.is_group_commit):
            return 0   # the end of a turn writes what is staged, on a full disk a later one
        self.written_for_replicas()
        if self.durable_end == self.log_end_offset:
            self.replication.synced = self.replication.written
        return 0

    cdef int end_replication(self) except -1:
        # What waited for the replicas now waits for this log's durable end.
        cdef AckWaiter* waiter
        cdef AckWaiter* following
        cdef Replication replication = self.replication
        self.lacks_replicas = self.awaits_role = False
        if replication is None:
            self.end_restored()
            return 0
        self.is_replicated = False
        self.replication = None
        waiter = replication.local_acks.head
        while waiter != NULL:
            following = waiter.next
            acks_add(&self.acks, waiter)
            waiter = following
        self.callbacks += replication.local_callbacks
        call_reached(self, replication.start_callbacks, INT64_MAX, True)
        self.raise_watermark(&replication.synced if self.is_group_commit else &replication.written)
        self.wake_all()
        self.turn.request_end()
        return 0

    cdef void end_restored(self) noexcept:
        # A start in a cluster has lowered the high watermark, in case there are other replicas.
        # (Under `os`, what was appended in this turn becomes visible at its end.)
        cdef int64_t end = self.durable_end if self.is_group_commit else self.log_end_offset
        cdef LogEnd place
        if self.high_watermark < end and self.active is not None and (
                self.is_group_commit
                or not (self.is_dirty or self.staged_size > 0 or self.is_switching)):
            if self.find_place(end, &place):
                self.raise_watermark(&place)

    # ---- ends -----------------------------------------------------------------------------------

    cdef int64_t written_end(self) noexcept:
        """Return the end of what replicas can copy: staged batches are in no file yet."""
        return self.log_end_offset if self.replication is None else self.replication.written.offset

    cdef int64_t kept_end(self) noexcept:
        """Return the durable end: of a sync under group-commit, of a write under `os`."""
        if self.replication is None:
            return self.high_watermark
        if self.is_group_commit:
            return self.replication.synced.offset
        return self.replication.written.offset

    cdef void written_for_replicas(self) noexcept:
        cdef LogEnd* end = &self.replication.written
        if end.offset != self.log_end_offset:
            self.replication.leave_end(end.offset, self.turn.steady_ms)
            end[0] = self.end_of_files()
            if self.is_follower:
                self.replication.keep_place(end)
            else:
                self.list_lagging()
                self.wake_replicas()
        if not self.is_group_commit:
            self.own_end_moved()

    cdef LogEnd end_of_files(self) noexcept:
        # The end of the log, of which nothing is staged.
        cdef LogEnd end
        end.offset = self.log_end_offset
        end.base_offset = self.active.base_offset
        end.position = self.active.written
        end.max_timestamp = self.active.max_timestamp
        return end

    cdef void synced_for_replicas(self) noexcept:
        cdef LogEnd* end = &self.replication.synced
        if self.durable_end <= end.offset:
            return
        end.offset = self.durable_end
        end.base_offset = self.job_segment.base_offset
        end.position = self.job_position
        end.max_timestamp = self.job_max_timestamp
        if self.is_group_commit:
            self.own_end_moved()

    cdef void own_end_moved(self) noexcept:
        acks_reach(self.turn, &self.replication.local_acks, self.kept_end())
        if self.replication.local_callbacks:
            call_reached(self, self.replication.local_callbacks, self.kept_end(), True)
        self.move_watermark()
        if self.is_follower:
            self.wake_replicas()

    cdef void move_watermark(self) noexcept:
        """Move the high watermark to where it is by the rule of the log's role."""
        cdef int64_t end = self.kept_end()
        cdef LogEnd place
        if self.is_follower:
            end = min(end, self.replication.leader_watermark)
        elif self.replication.is_below(self.min_isr):
            return
        else:
            end = self.replication.end_in_sync(end)
        if end <= self.high_watermark:
            return
        if self.replication.known_place(end, &place) or self.find_place(end, &place):
            self.raise_watermark(&place)
        if self.is_follower:
            self.follow_start()

    cdef void raise_watermark(self, const LogEnd* place) noexcept:
        cdef Segment segment = self.segment_of(place.offset)
        cdef bint is_in_it = segment.base_offset == place.base_offset
        # (At the end of a full segment is the start of the next one.)
        self.advance(place.offset, segment, place.position if is_in_it else 0,
                     place.max_timestamp if is_in_it else -1)

    cdef void follow_leader(self, int64_t high_watermark, int64_t log_start) noexcept:
        """Note the high watermark and the log start offset of the leader."""
        self.replication.leader_start = max(self.replication.leader_start, log_start)
        if high_watermark > self.replication.leader_watermark:
            self.replication.leader_watermark = high_watermark
            self.move_watermark()
        self.follow_start()

    cdef void follow_start(self) noexcept:
        # What the leader has deleted is deleted here once it is below the high watermark.
        cdef int64_t start = min(self.replication.leader_start, self.high_watermark)
        if start > self.log_start_offset:
            self.move_log_start(start)

    @property
    def local_end(self):
        """The end of what replicas can copy: what is in the files."""
        return self.written_end()

    @property
    def kept_offset(self):
        """The durable end, by the topic's durability: below it, this replica keeps everything."""
        return self.kept_end()

    @property
    def epoch_start(self):
        """The log's end when its leader epoch began; 0 without other replicas."""
        return 0 if self.replication is None else self.replication.epoch_start

    @property
    def is_caught_up_leader(self):
        """Whether it leads, and all that was in the log before its epoch is below the watermark."""
        return self.leads_caught_up()

    cdef bint leads_caught_up(self) noexcept:
        return not self.is_follower and (
            self.replication is None or self.high_watermark >= self.replication.epoch_start)

    # ---- replicas -------------------------------------------------------------------------------

    cdef LogStatus note_position(self, int32_t replica, int64_t replica_epoch, int64_t offset,
                                 int64_t log_start) noexcept:
        """Note where another broker's replica begins, and up to where its disk has everything."""
        cdef Follower* follower
        cdef int64_t now_ms = self.turn.steady_ms
        if self.is_loading:
            return LOG_LOADING
        if self.service_status() != LOG_OK:
            return self.service_status()
        follower = NULL if self.replication is None else self.replication.find(replica)
        if follower == NULL:
            return LOG_NOT_REPLICA
        if offset > self.log_end_offset or (
                offset < self.log_start_offset and offset < self.replica_start()):
            return LOG_OUT_OF_RANGE
        if not self.replication.report(
                follower, replica_epoch, offset, log_start, self.replication.written.offset,
                now_ms):
            return LOG_NOT_REPLICA
        if follower.is_in_sync:
            self.move_watermark()
            self.check_starts()
        elif self.replication.may_propose(follower, self.high_watermark, now_ms):
            self.turn.report_in_sync(self, replica, follower.broker_epoch)
        return LOG_OK

    def throttle(self, *, bint as_leader, bint as_follower):
        """Set whether what its followers copy, and what it copies itself, is throttled."""
        self.throttles_followers = as_leader
        self.is_throttled = as_follower

    cdef bint is_throttling(self, int32_t replica) noexcept:
        """Return whether a replica is throttled here: those in sync never are."""
        return (
            self.throttles_followers
            and self.replication is not None
            and not self.is_in_sync(replica))

    cdef bint is_in_sync(self, int32_t replica) noexcept:
        """Return whether a replica is a member of the ISR, or is being added to it."""
        cdef Follower* follower
        if self.replication is None:
            return False
        follower = self.replication.find(replica)
        return follower != NULL and follower.is_in_sync

    cdef bint holds_back(self, int32_t replica) noexcept:
        """Return whether a replica gets no records now."""
        return self.is_throttling(replica) and (
            self.turn.leader_throttle.is_spent(self.turn.steady_ms))

    cdef bint is_held_back(self) noexcept:
        """Return whether a follower must not copy now: it is behind what was committed at its
        leader, as far as it knows.
        """
        return (self.is_throttled
                and self.replication.leader_watermark > self.log_end_offset
                and self.turn.follower_throttle.is_spent(self.turn.steady_ms))

    cdef void check_starts(self) noexcept:
        if self.replication.start_callbacks:
            call_reached(self, self.replication.start_callbacks,
                         self.replication.start_in_sync(self.log_start_offset), True)

    def when_start_copied(self, int64_t offset, callback):
        """Call back with True once no replica in sync begins below an offset, with False if the log
        is not led any more.
        """
        if self.service_status() != LOG_OK:
            callback(False)
        elif self.replication is None:
            callback(True)
        else:
            self.replication.start_callbacks.append((offset, callback))
            self.check_starts()

    cdef LogStatus slice_for_replica(self, int64_t offset, int64_t size_max, bint at_least_one,
                                     LogSlice* found, PyObject** owner) noexcept:
        """As `slice`, up to the end of what is in the files."""
        cdef LogStatus status
        if self.replication is None or self.is_follower:
            return LOG_NOT_LED if self.is_follower else LOG_NOT_REPLICA
        if offset < self.log_start_offset and offset >= self.replica_start():
            offset = self.log_start_offset   # in the same batch
        status = self.slice_below(&self.replication.written, offset, INT64_MAX, size_max,
                                  at_least_one, found, owner)
        if status == LOG_OK and found.next_offset == self.replication.written.offset:
            self.replication.keep_place(&self.replication.written)
        return status

    cdef int64_t replica_start(self) noexcept:
        """Return the first batch's offset: copies have it whole, wherever the log starts in it.
        """
        cdef Segment segment = self.segment_of(self.log_start_offset)
        cdef int64_t position, first = -1
        if segment.open(False) == 0:
            position = segment.locate(self.log_start_offset)
            if 0 <= position < segment.written:
                first = segment.offset_at(position)
        # (After a gap the first batch begins later; one that cannot be read is not offered.)
        return first if 0 <= first < self.log_start_offset else self.log_start_offset

    cdef int64_t bytes_for_replica(self, int64_t offset) noexcept:
        """Return about how many bytes a replica could copy from an offset on."""
        if self.replication is None:
            return 0
        return self.bytes_below(&self.replication.written, offset, INT64_MAX)

    cdef bint has_forgotten(self, int32_t epoch) noexcept:
        """Return whether all batches of an epoch, and of those before it, were deleted here.

        A log start that a crash has set back is below the first epoch that is known: whatever is
        in between is of an unknown one.
        """
        return (
            0 <= epoch < self.leader_epoch
            and bool(self.epochs)
            and epoch < self.epochs[0][0]
            and self.epochs[0][1] <= self.log_start_offset)

    cdef bint cannot_compare(self, int32_t replica, int32_t last_epoch, int64_t offset,
                             int64_t log_start) noexcept:
        """Return whether a copy ends before all that is still here, in an epoch forgotten here.

        Its last records may be of a leader that had nobody copy them: where the forgotten epoch
        ended is not known, so such a copy begins anew. (Kafka keeps it, and serves those records
        when it leads.) A member of the ISR has all that was committed, and only that is deleted.
        So it keeps its log, and what it knows of producers.
        """
        return (
            log_start < offset <= self.log_start_offset
            and self.has_forgotten(last_epoch)
            and not self.is_in_sync(replica))

    cdef bint diverges(self, int32_t last_epoch, int64_t offset, int64_t log_start, int32_t* epoch,
                       int64_t* end) noexcept:
        """Return whether a copy with these last epoch and end has records that this log has not.

        If so, `epoch` and `end` receive up to where both may be the same: the largest epoch that
        both can have, and its end here. A copy without records, one that begins at its end, may
        end within the first batch here.
        """
        if last_epoch < 0 or (
                last_epoch == self.leader_epoch and offset <= self.log_end_offset):
            return False
        known, known_end = self.epoch_end(last_epoch)
        if log_start < offset and self.has_forgotten(last_epoch):
            known_end = min(known_end, self.replica_start())
        if known < 0 or (known == last_epoch and known_end >= offset):
            return False
        epoch[0] = known
        end[0] = known_end
        return True

    def replica_states(self):
        """Return (broker id, broker epoch, end, caught up at) of the other replicas.

        The end is -1 if it is not known, and so is the broker epoch; the time is of `steady_ms`.
        """
        cdef Replication replication = self.replication
        cdef int32_t i
        if replication is None:
            return []
        return [(replication.followers[i].id, replication.followers[i].broker_epoch,
                 replication.followers[i].offset, replication.followers[i].caught_up_ms)
                for i in range(replication.follower_count)]

    cdef int32_t replica_in_rack(self, bytes rack, dict racks, int64_t offset):
        """Return the replica in sync of a rack that has the most, and that has an offset; -1: none.
        """
        cdef Follower* best = NULL
        cdef Follower* follower
        cdef int32_t i
        if self.replication is None or self.is_follower:
            return -1
        for i in range(self.replication.follower_count):
            follower = &self.replication.followers[i]
            if (follower.is_in_sync and follower.offset >= offset
                    and (best == NULL or follower.offset > best.offset)
                    and racks.get(follower.id) == rack):
                best = follower
        return -1 if best == NULL else best.id

    def nearest_replica(self, bytes rack not None, dict racks not None, int64_t offset):
        """Return which other broker a reader of a rack should read an offset from, -1 for none.

        `racks` has the racks of other brokers, by their ids.
        """
        return self.replica_in_rack(rack, racks, offset)

    cdef void list_lagging(self) noexcept:
        if not self.is_lagging and self.replication.is_behind(self.replication.written.offset):
            self.is_lagging = True
            self.turn.add_awaiting(self.turn.lagging, self)

    cdef bint add_lagging(self, int64_t now_ms, int64_t lag_ms, list found):
        cdef Replication replication = self.replication
        cdef Follower* follower
        cdef int64_t end
        cdef int32_t i
        self.is_lagging = False
        if replication is None or self.service_status() != LOG_OK:
            return False
        end = replication.written.offset
        self.is_lagging = replication.is_behind(end)
        if not self.is_lagging:
            return False
        for i in range(replication.follower_count):
            follower = &replication.followers[i]
            if (follower.is_in_sync and follower.offset < end
                    and now_ms - follower.caught_up_ms > lag_ms):
                found.append((self, follower.id))
        return True

    # ---- waiters --------------------------------------------------------------------------------

    cdef void wait_local(self, AckWaiter* waiter) noexcept:
        """Return the waiter through Turn.finished once this replica has everything below it."""
        cdef LogStatus status = self.service_status()
        if self.replication is None:
            self.wait(waiter)
            return
        self.turn.waiting_writes += 1
        if status != LOG_OK:
            self.fail_waiter(waiter, status)
        elif waiter.offset <= self.kept_end():
            self.turn.finish(waiter, LOG_OK)
        else:
            acks_add(&self.replication.local_acks, waiter)

    def when_kept(self, int64_t offset, callback):
        """Call back with True once this replica has everything below an offset on its disk, by the
        topic's durability, whatever the other replicas have; with False if that fails.
        """
        if self.replication is None:
            self.when_durable(offset, callback)
        elif self.service_status() != LOG_OK:
            callback(False)
        elif offset <= self.kept_end():
            callback(True)
        else:
            self.replication.local_callbacks.append((offset, callback))

    cdef void note_wait(self, AckWaiter* waiter) noexcept:
        if waiter.due_ms <= 0:
            return
        self.replication.note_due(waiter.due_ms)
        if not self.is_expiring:
            self.is_expiring = True
            self.turn.add_awaiting(self.turn.expiring, self)

    cdef bint expire(self, int64_t now_ms) noexcept:
        cdef Replication replication = self.replication
        self.is_expiring = False
        if replication is None:
            return False
        if 0 < replication.due_ms <= now_ms:
            if acks_expire(self, &self.acks, now_ms, &replication.due_ms):
                self.turn.request_end()
        if self.acks.head == NULL:
            replication.due_ms = 0
        self.is_expiring = replication.due_ms > 0
        return self.is_expiring

    cdef void fail_waiters_with(self, LogStatus status) noexcept:
        if self.replication is not None:
            acks_fail(self, &self.replication.local_acks, status)
            call_reached(self, self.replication.local_callbacks, self.kept_end(), False)
            call_reached(self, self.replication.start_callbacks, -1, False)
        AwaitedLog.fail_waiters_with(self, status)

    # ---- for broker.storage ---------------------------------------------------------------------

    def restore_watermark(self, int64_t offset):
        """Lower the high watermark of a log that was opened just now to what a checkpoint has.

        Raises StorageError when the place cannot be read.
        """
        cdef LogEnd place
        offset = max(offset, self.log_start_offset)
        if offset >= self.high_watermark:
            return
        if not self.find_place(offset, &place):
            raise StorageError(f"{self!r}: cannot find the place of offset {offset}")
        self.lower_watermark(&place)

    def await_role(self):
        """Leave the high watermark where it is until the log leads or follows.

        For a log that was opened just now: what its turns and syncs reach may be on no other
        replica.
        """
        self.awaits_role = True

    cdef void lower_watermark(self, const LogEnd* place) noexcept:
        self.high_watermark = place.offset
        self.visible_segment = self.segment_of(place.offset)
        self.visible_position = place.position
        self.visible_max_timestamp = place.max_timestamp
