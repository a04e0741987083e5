"""What a turn of the event loop changed in the logs, and the waiters.

At its end, a turn writes the staged bytes of all dirty logs. Then it completes the waiters whose
condition is now met, by that write or by a sync that has ended meanwhile:

    an acknowledgement   waits for the high watermark to reach an offset; returned in `finished`,
                         at the latest when it is due
    a reader             watches any number of logs; put on `woken` once, however many have changed
    a callback           is called once an offset is reached; for Python code

The first two are intrusive lists, linked through the waiters: waiting allocates no memory here.
"""

cimport cython
from cpython.ref cimport Py_DECREF
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free

from broker._native.kernel.histogram cimport histogram_add, histogram_state
from broker._native.log.commit cimport CommitThread, SyncJob
from broker._native.log.open_files cimport OpenFiles
from broker._native.log.throttle cimport Throttle

import logging

from broker.model import limits

logger = logging.getLogger(__name__)

cdef int64_t REFUSED_MS = limits.PRODUCER_REFUSED_SECONDS * 1000


@cython.final
cdef class DiskState:
    """How full a disk is, and what follows for the logs on it."""


@cython.final
cdef class Turn:
    """The changes of one turn of the event loop and the work they cause, for the whole broker."""

    def __cinit__(self, CommitThread commit):
        self.commit = commit
        self.files = OpenFiles()
        self.disk = DiskState()
        self.decompressed_bytes_max = limits.DECOMPRESSED_BYTES_MIN
        self.serves_until_ns = INT64_MAX
        self.unfenced_ms = -1
        self.dirty = []
        self.aging = []
        self.full = []
        self.retry_queue = []
        self.events = []
        self.expiring = []
        self.lagging = []
        self.isr_events = []
        self.leader_throttle = Throttle()
        self.follower_throttle = Throttle()

    def __dealloc__(self):
        free(self.spare)

    cdef void flush(self):
        """Write what the turn staged; advance high watermarks or start syncs."""
        cdef list dirty = self.dirty
        cdef AwaitedLog log
        if not dirty:
            return
        self.dirty = []
        for log in dirty:
            log.flush()

    cpdef void poll_synced(self):
        """Pass the finished sync jobs to their logs."""
        cdef SyncJob* job = self.commit.take_finished()
        cdef SyncJob* next_job
        cdef AwaitedLog log
        while job != NULL:
            next_job = job.next
            log = <AwaitedLog>job.owner
            histogram_add(&self.syncs, job.took_us)
            log.synced()
            Py_DECREF(log)
            job = next_job
        self.retry_syncs()

    cdef void retry_syncs(self):
        """Restart, at the end of a turn, the syncs that lacked a descriptor or memory."""
        if self.retry_queue:
            self.dirty += self.retry_queue
            self.retry_queue = []
            self.request_end()

    cdef void finish(self, AckWaiter* waiter, LogStatus status) noexcept:
        self.waiting_writes -= 1
        waiter.status = status
        waiter.next = NULL
        if self.finished == NULL:
            self.finished = waiter
        else:
            self.finished_tail.next = waiter
        self.finished_tail = waiter

    cdef void forget(self, WatchOwner* owner) noexcept:
        """Remove an owner that is about to be freed from the list of woken owners."""
        cdef WatchOwner* before = NULL
        cdef WatchOwner* other = self.woken
        if not owner.is_woken:
            return
        while other != owner:
            before = other
            other = other.woken_next
        if before == NULL:
            self.woken = owner.woken_next
        else:
            before.woken_next = owner.woken_next
        if self.woken_tail == owner:
            self.woken_tail = before
        owner.is_woken = False

    cdef void report_in_sync(self, AwaitedLog log, int32_t replica, int64_t broker_epoch):
        """Note that a replica is fit to be in sync."""
        self.isr_events.append((log, replica, broker_epoch))
        if len(self.isr_events) == 1 and self.when_in_sync is not None:
            self.when_in_sync()

    cdef void add_awaiting(self, list logs, AwaitedLog log):
        """Add a log that waits for replicas to those that expire, or to those that lag."""
        logs.append(log)
        if len(logs) == 1 and self.when_awaiting is not None:
            self.when_awaiting()

    cdef void report_full(self):
        """Call `when_full`: a log's write found the disk full."""
        if not self.is_full_reported and self.when_full is not None:
            self.is_full_reported = True
            self.when_full()

    @property
    def sync_times(self):
        """The histogram of the times that syncs have taken."""
        return histogram_state(&self.syncs)

    def retry_full(self):
        """Retry, at the end of a turn, the writes that found the disk full.

        Waiters of writes that fail again are notified.
        """
        cdef AwaitedLog log
        self.is_full_reported = False
        for log in self.full:
            if not log.is_offline and not log.is_deleted:
                self.dirty.append(log)
        if self.full:
            self.full = []
            self.request_end()

    @property
    def full_count(self):
        """How many logs keep staged bytes because the disk was full."""
        return len(self.full)

    cpdef request_end(self):
        """Schedule the end of a turn after a change outside of one."""
        if not self.is_running and not self.is_requested and self.schedule is not None:
            self.is_requested = True
            self.schedule()

    @property
    def aging_count(self):
        """How many logs the next `sync_aged` examines."""
        return len(self.aging)

    def sync_aged(self, int64_t steady_ms):
        """Start the syncs that are due by flush.ms when no append starts them.

        Also restart those that lacked a descriptor or memory.
        """
        cdef AwaitedLog log
        cdef list aging = self.aging
        self.steady_ms = steady_ms
        self.aging = []
        for log in aging:
            if log.ages():
                self.aging.append(log)
        self.retry_syncs()

    def fail_overdue(self, int64_t now_ms):
        """Fail the acknowledgements that were due at a time of `steady_ms`."""
        cdef AwaitedLog log
        cdef list expiring = self.expiring
        self.expiring = []
        for log in expiring:
            if log.expire(now_ms):
                self.expiring.append(log)

    @property
    def expiring_count(self):
        """How many logs the next `fail_overdue` examines."""
        return len(self.expiring)

    def lag_scan(self, int64_t now_ms, int64_t lag_ms):
        """Return (log, broker id) of the replicas in sync that have been behind for that long.

        `now_ms` is of `steady_ms`. The same replica is returned by each scan until it is removed
        from those in sync, or is at the end of the log.
        """
        cdef AwaitedLog log
        cdef list lagging = self.lagging
        cdef list found = []
        self.lagging = []
        for log in lagging:
            if log.add_lagging(now_ms, lag_ms, found):
                self.lagging.append(log)
        return found

    @property
    def lagging_count(self):
        """How many logs the next `lag_scan` examines."""
        return len(self.lagging)

    def end(self):
        """Write what is staged, for callers without an event loop (tests, tools)."""
        self.is_requested = False
        self.flush()


cdef class AwaitedLog:
    """The part of a log that a turn and its waiters use; the base class of PartitionLog."""

    def __cinit__(self):
        self.callbacks = []
        self.led_from_ms = -1

    cdef void flush(self) noexcept:
        """Write what the turn staged; advance the high watermark or start a sync."""

    cdef void synced(self) noexcept:
        """Process the result of the sync that has ended."""

    cdef void go_idle(self) noexcept:
        """Close the file of a log that is not in use, once all of it is on the disk."""

    cdef bint ages(self) noexcept:
        """Start a sync if one is due by flush.ms. Return whether unsynced bytes remain."""
        return False

    cdef bint expire(self, int64_t now_ms) noexcept:
        """Fail the waiters that were due by then. Return whether others may be due later."""
        return False

    cdef bint add_lagging(self, int64_t now_ms, int64_t lag_ms, list found):
        """Add (self, broker id) of the replicas in sync that have been behind for that long.

        Return whether any replica in sync is behind.
        """
        return False

    cdef void reach(self, int64_t high_watermark) noexcept:
        """Move the high watermark and complete the waiters that it reaches."""
        self.high_watermark = high_watermark
        if self.acks.head != NULL:
            acks_reach(self.turn, &self.acks, high_watermark)
        if self.callbacks:
            call_reached(self, self.callbacks, high_watermark, True)
        self.wake()

    cdef void fail_waiters(self) noexcept:
        # Fail all waiters: their offsets will not be reached.
        self.fail_waiters_with(self.service_status())

    cdef void fail_waiters_with(self, LogStatus status) noexcept:
        acks_fail(self, &self.acks, status)
        call_reached(self, self.callbacks, self.high_watermark, False)
        self.wake()
        self.turn.request_end()

    cdef LogStatus service_status(self) noexcept:
        """Return LOG_OK, or why nothing that is appended from now on will be visible."""
        if self.is_released or self.is_follower:
            return LOG_NOT_LED
        return LOG_OFFLINE if self.is_offline or self.is_deleted else LOG_OK

    cdef LogStatus storage_status(self) noexcept:
        """Return LOG_OK, or why nothing of it can be read."""
        if self.is_released:
            return LOG_NOT_LED
        return LOG_OFFLINE if self.is_offline or self.is_deleted else LOG_OK

    @property
    def is_led(self):
        """Whether the broker may accept and acknowledge writes to it at this moment."""
        return not (self.is_released or self.is_follower) and (
            may_acknowledge(self.turn, self.broker_epoch))

    def elected(self):
        """Serve it under the broker's present registration, for which the broker was elected."""
        if self.broker_epoch != self.turn.broker_epoch:
            self.led_from_ms = self.turn.steady_ms
        self.broker_epoch = self.turn.broker_epoch

    cdef bint is_led_lately(self) noexcept:
        """Return whether batches of a producer may still arrive that follow a refused one.

        A producer sends up to five batches without waiting. If the first ones were refused because
        the broker did not lead the partition at that moment, the next ones are refused likewise
        until the producer has sent the first ones again: for a sequence out of order librdkafka
        would take a new producer epoch, under which what is in the log already is repeated.
        """
        cdef int64_t since_ms = max(self.led_from_ms, self.turn.unfenced_ms)
        return since_ms >= 0 and self.turn.steady_ms - since_ms < REFUSED_MS

    cdef void wait(self, AckWaiter* waiter) noexcept:
        """Return the waiter through Turn.finished once the high watermark reaches its offset."""
        cdef LogStatus status = self.service_status()
        self.turn.waiting_writes += 1
        waiter.next = NULL
        if status != LOG_OK:
            self.fail_waiter(waiter, status)
            return
        if waiter.offset <= self.high_watermark:
            self.turn.finish(waiter, LOG_OK)
            return
        if self.lacks_replicas:
            self.fail_waiter(waiter, LOG_TOO_FEW_REPLICAS)
            return
        acks_add(&self.acks, waiter)
        if self.is_replicated:
            self.note_wait(waiter)

    cdef void note_wait(self, AckWaiter* waiter) noexcept:
        """Note when a new waiter is due."""

    cdef void fail_waiter(self, AckWaiter* waiter, LogStatus status) noexcept:
        self.failed_writes += 1
        self.turn.finish(waiter, status)

    cdef void watch(self, Watch* watch) noexcept:
        """Wake the watch's owner when the high watermark moves, or the log changes its state."""
        self.link_watch(watch, &self.watches, False)

    cdef void watch_as_replica(self, Watch* watch) noexcept:
        """Wake the watch's owner likewise, and when there is more for a replica to copy, or, of a
        follower's log, when more of what it has copied is on the disk.
        """
        self.link_watch(watch, &self.replica_watches, True)

    cdef void link_watch(self, Watch* watch, Watch** head, bint is_of_replica) noexcept:
        if watch.is_linked:
            return
        watch.is_linked = True
        watch.is_of_replica = is_of_replica
        watch.previous = NULL
        watch.next = head[0]
        if head[0] != NULL:
            head[0].previous = watch
        head[0] = watch

    cdef void unwatch(self, Watch* watch) noexcept:
        if not watch.is_linked:
            return
        watch.is_linked = False
        if watch.previous != NULL:
            watch.previous.next = watch.next
        elif watch.is_of_replica:
            self.replica_watches = watch.next
        else:
            self.watches = watch.next
        if watch.next != NULL:
            watch.next.previous = watch.previous

    cdef void wake(self) noexcept:
        if self.watches != NULL:
            wake_list(self.turn, self.watches)
        if self.replica_watches != NULL:
            wake_list(self.turn, self.replica_watches)

    cdef void wake_replicas(self) noexcept:
        if self.replica_watches != NULL:
            wake_list(self.turn, self.replica_watches)

    def begin_loading(self):
        """Refuse everything until `end_loading`: a thread has exclusive access, or will have.

        Watchers are woken, to be refused; writes that were accepted are still completed.
        """
        self.is_loading = True
        self.turn.log_changes += 1
        self.wake_all()

    def end_loading(self):
        """Serve the recovered log and wake its watchers."""
        self.is_loading = False
        if self.turn.serves_until_ns != INT64_MAX:
            self.led_from_ms = self.turn.steady_ms
        self.turn.log_changes += 1
        self.wake_all()

    cdef void wake_all(self) noexcept:
        # Outside of a turn, one is needed for those that are woken.
        if self.watches != NULL or self.replica_watches != NULL:
            self.wake()
            self.turn.request_end()

    def when_durable(self, int64_t offset, callback):
        """Call back with True once the high watermark reaches an offset, with False if it cannot,
        or when the ISR falls below min.insync.replicas meanwhile, or is given again below it.
        """
        if self.is_offline or self.is_deleted or self.is_follower:
            callback(False)
        elif offset <= self.high_watermark:
            callback(True)
        else:
            self.callbacks.append((offset, callback))


cdef void ready_add(Watch* watch) noexcept:
    """Append a watch to its owner's ready list, unless it is there."""
    cdef WatchOwner* owner = watch.owner
    if watch.is_ready:
        return
    watch.is_ready = True
    watch.ready_next = NULL
    if owner.ready_head == NULL:
        owner.ready_head = watch
    else:
        owner.ready_tail.ready_next = watch
    owner.ready_tail = watch


cdef void ready_remove(Watch* watch) noexcept:
    """Remove a watch from its owner's ready list, by a walk: that is rare."""
    cdef WatchOwner* owner = watch.owner
    cdef Watch* before = NULL
    cdef Watch* other = owner.ready_head
    if not watch.is_ready:
        return
    watch.is_ready = False
    while other != watch:
        if other == NULL:
            return    # an answer that found no memory had not come to it
        before = other
        other = other.ready_next
    if before == NULL:
        owner.ready_head = watch.ready_next
    else:
        before.ready_next = watch.ready_next
    if owner.ready_tail == watch:
        owner.ready_tail = before


cdef void wake_list(Turn turn, Watch* watch) noexcept:
    # O(watches that were not ready yet).
    cdef WatchOwner* owner
    while watch != NULL:
        owner = watch.owner
        ready_add(watch)
        if owner.is_parked and not owner.is_woken:
            owner.is_woken = True
            owner.woken_next = NULL
            if turn.woken == NULL:
                turn.woken = owner
            else:
                turn.woken_tail.woken_next = owner
            turn.woken_tail = owner
        watch = watch.next


cdef void acks_add(AckList* acks, AckWaiter* waiter) noexcept nogil:
    # Offsets are assigned in order, but a duplicate batch waits for its original's offset.
    cdef AckWaiter* before
    waiter.next = NULL
    if acks.head == NULL or waiter.offset < acks.head.offset:
        waiter.next = acks.head
        acks.head = waiter
        if waiter.next == NULL:
            acks.tail = waiter
    elif waiter.offset >= acks.tail.offset:
        acks.tail.next = waiter
        acks.tail = waiter
    else:
        before = acks.head
        while before.next.offset <= waiter.offset:
            before = before.next
        waiter.next = before.next
        before.next = waiter


cdef void acks_reach(Turn turn, AckList* acks, int64_t end) noexcept:
    """Complete the waiters whose offsets are reached."""
    cdef AckWaiter* waiter
    while acks.head != NULL and acks.head.offset <= end:
        waiter = acks.head
        acks.head = waiter.next
        turn.finish(waiter, LOG_OK)


cdef void acks_fail(AwaitedLog log, AckList* acks, LogStatus status) noexcept:
    """Fail all waiters of a list."""
    cdef AckWaiter* waiter
    while acks.head != NULL:
        waiter = acks.head
        acks.head = waiter.next
        log.fail_waiter(waiter, status)


cdef bint acks_expire(AwaitedLog log, AckList* acks, int64_t now_ms, int64_t* due_ms) noexcept:
    """Fail the waiters that are due. Return whether any failed; `due_ms` receives when the next of
    the others is due, 0 for never.
    """
    cdef AckWaiter* waiter = acks.head
    cdef AckWaiter* following
    cdef bint has_failed = False
    acks.head = acks.tail = NULL
    due_ms[0] = 0
    while waiter != NULL:
        following = waiter.next
        if 0 < waiter.due_ms <= now_ms:
            log.fail_waiter(waiter, LOG_TIMED_OUT)
            has_failed = True
        else:
            acks_add(acks, waiter)
            if waiter.due_ms > 0 and (due_ms[0] == 0 or waiter.due_ms < due_ms[0]):
                due_ms[0] = waiter.due_ms
        waiter = following
    return has_failed


cdef void call_reached(AwaitedLog log, list waiting, int64_t end, bint is_good) noexcept:
    """Remove and call the (offset, callback) pairs whose offset is reached, or all pairs if none
    will be reached any more. A callback may add to the same list.
    """
    cdef list due = [each for each in waiting if not is_good or each[0] <= end]
    waiting[:] = [each for each in waiting if is_good and each[0] > end]
    for _, callback in due:
        try:
            callback(is_good)
        except Exception:  # the other waiters must still be called
            logger.exception("callback of a log failed topic=%s partition=%d", log.topic,
                             log.partition)
