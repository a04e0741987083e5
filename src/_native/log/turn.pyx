"""What a turn of the loop changed in the logs, and who waits for what.

A turn writes for all dirty logs at its end, then lets go of those whom that, or a sync that has
ended meanwhile, has given what they wait for:

    an acknowledgement   waits for the high watermark to reach one offset; handed back by `finished`
    a reader             watches any number of logs; put on `woken` once, however many of them grow
    a callback           is Python's way to wait for an offset

The first two are lists through the memory of those who wait: waiting costs no allocation here.
"""

cimport cython
from cpython.ref cimport Py_DECREF
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from broker._native.log.commit cimport CommitThread, SyncJob
from broker._native.log.open_files cimport OpenFiles

import logging

from broker.model import limits

logger = logging.getLogger(__name__)

# Kinds of Turn.events.
ROLLED = EVENT_ROLLED
OFFLINE = EVENT_OFFLINE
BROKEN = EVENT_BROKEN


@cython.final
cdef class Turn:
    """What one turn of the loop changed and what follows from it, for the whole broker."""

    def __cinit__(self, CommitThread commit):
        self.commit = commit
        self.files = OpenFiles()
        self.unfolded_bytes_max = limits.DECOMPRESSED_BYTES_MIN
        self.dirty = []
        self.aging = []
        self.full = []
        self.wanting = []
        self.events = []

    def __dealloc__(self):
        free(self.spare)

    cdef void flush(self):
        """Write what the turn staged; arrange what its acknowledgements wait for."""
        cdef list dirty = self.dirty
        cdef AwaitedLog log
        if not dirty:
            return
        self.dirty = []
        for log in dirty:
            log.flush()

    cdef void take_synced(self):
        """Let the logs whose sync has ended go on."""
        cdef SyncJob* job = self.commit.take_finished()
        cdef SyncJob* next_job
        cdef AwaitedLog log
        while job != NULL:
            next_job = job.next
            log = <AwaitedLog>job.owner
            log.synced()
            Py_DECREF(log)
            job = next_job
        self.retry_wanting()

    cdef void retry_wanting(self):
        """Have the logs whose sync found no descriptor or no memory begin it at a turn's end."""
        if self.wanting:
            self.dirty += self.wanting
            self.wanting = []
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
        """Take an owner that is about to end off the list of the woken."""
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

    cdef void found_full(self):
        """A log has found no room on the disk."""
        if not self.is_full_told and self.when_full is not None:
            self.is_full_told = True
            self.when_full()

    def retry_full(self):
        """Have the logs that keep what found no room write it at the end of a turn.

        Where there is still none, who waits for it is told.
        """
        cdef AwaitedLog log
        self.is_full_told = False
        for log in self.full:
            if not log.is_offline and not log.is_deleted:
                self.dirty.append(log)
        if self.full:
            self.full = []
            self.request_end()

    @property
    def full_count(self):
        """How many logs keep something that found no room."""
        return len(self.full)

    cdef bint has_work(self):
        return self.dirty or self.finished != NULL or self.woken != NULL

    cpdef request_end(self):
        """Have the loop end a turn soon, when something changed outside of one."""
        if not self.is_running and not self.is_requested and self.schedule is not None:
            self.is_requested = True
            self.schedule()

    @property
    def aging_count(self):
        """How many logs the next `sync_aged` looks at."""
        return len(self.aging)

    def sync_aged(self, int64_t steady_ms):
        """Begin the syncs that flush.ms asks for, when no append comes to do it.

        So are those begun again that found no descriptor before.
        """
        cdef AwaitedLog log
        cdef list aging = self.aging
        self.steady_ms = steady_ms
        self.aging = []
        for log in aging:
            if log.ages():
                self.aging.append(log)
        self.retry_wanting()

    def end(self):
        """Write what is staged, where no loop runs (tests, tools)."""
        self.is_requested = False
        self.flush()

    def poll_synced(self):
        """Take what the commit thread has finished (tests, and a broker that stops)."""
        self.take_synced()


cdef class AwaitedLog:
    """What a turn and those who wait know of a log; PartitionLog is one."""

    def __cinit__(self):
        self.callbacks = []

    cdef void flush(self) noexcept:
        """Write what the turn staged; arrange what its acknowledgements wait for."""

    cdef void synced(self) noexcept:
        """Take the result of the sync that has ended."""

    cdef void rest(self) noexcept:
        """The log was not used for long: let go of its file once all of it is on the disk."""

    cdef bint ages(self) noexcept:
        """Have what is old enough synced. Whether there is more that will be."""
        return False

    cdef void reach(self, int64_t high_watermark) noexcept:
        """Move the high watermark and let go of everything that waited for it."""
        cdef AckWaiter* waiter
        self.high_watermark = high_watermark
        while self.acks_head != NULL and self.acks_head.offset <= high_watermark:
            waiter = self.acks_head
            self.acks_head = waiter.next
            self.turn.finish(waiter, LOG_OK)
        if self.callbacks:
            self.call_back(True)
        self.wake()

    cdef void let_go(self) noexcept:
        # Nobody who waits for this log will get what it waits for.
        self.let_go_as(LOG_OFFLINE)

    cdef void let_go_as(self, LogStatus status) noexcept:
        cdef AckWaiter* waiter
        while self.acks_head != NULL:
            waiter = self.acks_head
            self.acks_head = waiter.next
            self.turn.finish(waiter, status)
        self.call_back(False)
        self.wake()
        self.turn.request_end()

    cdef void wait(self, AckWaiter* waiter) noexcept:
        """Hand the waiter back through Turn.finished once its offset is visible."""
        waiter.next = NULL
        cdef bint is_lost = self.is_offline or self.is_deleted
        if is_lost or waiter.offset <= self.high_watermark:
            self.turn.finish(waiter, LOG_OFFLINE if is_lost else LOG_OK)
            return
        # Offsets are handed out in order, but a repeated batch waits for an older one.
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
        """Refuse everything until `end_loading`: a thread has the log to itself."""
        self.is_loading = True
        self.turn.log_changes += 1

    def end_loading(self):
        """Serve what the thread has made of the log; who was refused is woken."""
        self.is_loading = False
        self.turn.log_changes += 1
        if self.watches != NULL:
            self.wake()
            self.turn.request_end()

    def when_durable(self, int64_t offset, callback):
        """Call back with True once the high watermark is at an offset, with False if it cannot."""
        if self.is_offline or self.is_deleted:
            callback(False)
        elif offset <= self.high_watermark:
            callback(True)
        else:
            self.callbacks.append((offset, callback))

    cdef void call_back(self, bint is_durable):
        call_reached(self, self.callbacks, self.high_watermark, is_durable)


cdef void call_reached(AwaitedLog log, list waiting, int64_t end, bint is_good) noexcept:
    """Take out those of (offset, callback) whose offset is reached, or all if nothing will be
    reached any more, and tell them. A callback may wait again, in the same list.
    """
    cdef list told = [each for each in waiting if not is_good or each[0] <= end]
    waiting[:] = [each for each in waiting if is_good and each[0] > end]
    for _, callback in told:
        try:
            callback(is_good)
        except Exception:  # one waiter's failure is not the others'
            logger.exception("callback of a log failed topic=%s partition=%d", log.topic,
                             log.partition)
