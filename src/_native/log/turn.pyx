"""What a turn of the event loop changed in the logs, and the waiters.

At its end, a turn writes the staged bytes of all dirty logs. Then it completes the waiters whose
condition is now met, by that write or by a sync that has ended meanwhile:

    an acknowledgement   waits for the high watermark to reach an offset; returned in `finished`
    a reader             watches any number of logs; put on `woken` once, however many have changed
    a callback           is called once an offset is reached; for Python code

The first two are intrusive lists, linked through the waiters: waiting allocates no memory here.
"""

cimport cython
from cpython.ref cimport Py_DECREF
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport free

from broker._native.log.commit cimport CommitThread, SyncJob
from broker._native.log.open_files cimport OpenFiles

import logging

from broker.model import limits

logger = logging.getLogger(__name__)

cdef int64_t REFUSED_MS = limits.PRODUCER_REFUSED_SECONDS * 1000


@cython.final
cdef class Turn:
    """The changes of one turn of the event loop and the work they cause, for the whole broker."""

    def __cinit__(self, CommitThread commit):
        self.commit = commit
        self.files = OpenFiles()
        self.decompressed_bytes_max = limits.DECOMPRESSED_BYTES_MIN
        self.serves_until_ns = INT64_MAX
        self.unfenced_ms = -1
        self.dirty = []
        self.aging = []
        self.full = []
        self.retry_queue = []
        self.events = []

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

    cdef void report_full(self):
        """Call `when_full`: a log's write found the disk full."""
        if not self.is_full_reported and self.when_full is not None:
            self.is_full_reported = True
            self.when_full()

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

    cdef void reach(self, int64_t high_watermark) noexcept:
        """Move the high watermark and complete the waiters that it reaches."""
        cdef AckWaiter* waiter
        self.high_watermark = high_watermark
        while self.acks_head != NULL and self.acks_head.offset <= high_watermark:
            waiter = self.acks_head
            self.acks_head = waiter.next
            self.turn.finish(waiter, LOG_OK)
        if self.callbacks:
            call_reached(self, self.callbacks, high_watermark, True)
        self.wake()

    cdef void fail_waiters(self) noexcept:
        # Fail all waiters: their offsets will not be reached.
        self.fail_waiters_with(self.service_status())

    cdef void fail_waiters_with(self, LogStatus status) noexcept:
        cdef AckWaiter* waiter
        while self.acks_head != NULL:
            waiter = self.acks_head
            self.acks_head = waiter.next
            self.turn.finish(waiter, status)
        call_reached(self, self.callbacks, self.high_watermark, False)
        self.wake()
        self.turn.request_end()

    cdef LogStatus service_status(self) noexcept:
        """Return LOG_OK, or why nothing that is appended from now on will be visible."""
        if self.is_released:
            return LOG_NOT_LED
        return LOG_OFFLINE if self.is_offline or self.is_deleted else LOG_OK

    @property
    def is_led(self):
        """Whether the broker may accept and acknowledge writes to it at this moment."""
        return not self.is_released and may_acknowledge(self.turn, self.broker_epoch)

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
        waiter.next = NULL
        if status != LOG_OK or waiter.offset <= self.high_watermark:
            self.turn.finish(waiter, status)
            return
        # Offsets are assigned in order, but a duplicate batch waits for its original's offset.
        cdef AckWaiter* before
        if self.acks_head == NULL or waiter.offset < self.acks_head.offset:
            waiter.next = self.acks_head
            self.acks_head = waiter
            if waiter.next == NULL:
                self.acks_tail = waiter
        elif waiter.offset >= self.acks_tail.offset:
            self.acks_tail.next = waiter
            self.acks_tail = waiter
        else:
            before = self.acks_head
            while before.next.offset <= waiter.offset:
                before = before.next
            waiter.next = before.next
            before.next = waiter

    cdef void watch(self, Watch* watch) noexcept:
        if watch.is_linked:
            return
        watch.is_linked = True
        watch.previous = NULL
        watch.next = self.watches
        if self.watches != NULL:
            self.watches.previous = watch
        self.watches = watch

    cdef void unwatch(self, Watch* watch) noexcept:
        if not watch.is_linked:
            return
        watch.is_linked = False
        if watch.previous != NULL:
            watch.previous.next = watch.next
        else:
            self.watches = watch.next
        if watch.next != NULL:
            watch.next.previous = watch.previous

    cdef void wake(self) noexcept:
        # O(watches that were not ready yet).
        cdef Watch* watch = self.watches
        cdef WatchOwner* owner
        while watch != NULL:
            owner = watch.owner
            if not watch.is_ready:
                watch.is_ready = True
                watch.ready_next = NULL
                if owner.ready_head == NULL:
                    owner.ready_head = watch
                else:
                    owner.ready_tail.ready_next = watch
                owner.ready_tail = watch
            if owner.is_parked and not owner.is_woken:
                owner.is_woken = True
                owner.woken_next = NULL
                if self.turn.woken == NULL:
                    self.turn.woken = owner
                else:
                    self.turn.woken_tail.woken_next = owner
                self.turn.woken_tail = owner
            watch = watch.next

    def begin_loading(self):
        """Refuse everything until `end_loading`: a thread has exclusive access, or will have.

        Watchers are woken, to be refused; writes that were accepted are still completed.
        """
        self.is_loading = True
        self.turn.log_changes += 1
        if self.watches != NULL:
            self.wake()
            self.turn.request_end()

    def end_loading(self):
        """Serve the recovered log and wake its watchers."""
        self.is_loading = False
        if self.turn.serves_until_ns != INT64_MAX:
            self.led_from_ms = self.turn.steady_ms
        self.turn.log_changes += 1
        if self.watches != NULL:
            self.wake()
            self.turn.request_end()

    def when_durable(self, int64_t offset, callback):
        """Call back with True once the high watermark reaches an offset, with False if it cannot.
        """
        if self.is_offline or self.is_deleted:
            callback(False)
        elif offset <= self.high_watermark:
            callback(True)
        else:
            self.callbacks.append((offset, callback))


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
