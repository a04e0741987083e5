from libc.errno cimport EMFILE, ENFILE, ENOMEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.kernel.clock cimport monotonic_ns
from broker._native.kernel.histogram cimport Histogram
from broker._native.log.commit cimport CommitThread
from broker._native.log.open_files cimport OpenFiles
from broker._native.log.throttle cimport Throttle

# The result of an append or a read; each protocol maps it to its own error code.
cdef enum LogStatus:
    LOG_OK = 0
    LOG_OFFLINE            # the disk failed, or the partition is gone
    LOG_OUT_OF_RANGE       # an offset below the log start or above the log end
    LOG_LOADING            # its files are not recovered yet
    LOG_FULL               # the disk is full; the same request may be retried later
    LOG_NOT_LED            # another broker leads the partition, or may lead it by now
    LOG_TIMED_OUT          # appended, but not on enough replicas within the time of the request
    LOG_TOO_FEW_REPLICAS   # fewer replicas are in sync than min.insync.replicas
    LOG_CORRUPT            # a copied batch that its leader cannot have sent
    LOG_GAP                # a copied batch that does not follow the end of the log
    LOG_NOT_REPLICA        # the broker that asks has no replica of the partition

# One acknowledgement that waits until the high watermark reaches an offset. Owned by the waiting
# request; the log links it and returns it through Turn.finished.
cdef struct AckWaiter:
    AckWaiter* next
    int64_t offset             # ready when the high watermark reaches it
    int64_t due_ms             # of Turn.steady_ms: when it fails if it waits for replicas; 0: never
    void* owner                # opaque to the log
    uint32_t place             # opaque: where in the owner's reply this log is
    LogStatus status

# Waiters ordered by their offsets.
cdef struct AckList:
    AckWaiter* head
    AckWaiter* tail

# One reader's interest in one log. It stays in the log's list until the owner removes it; a change
# of the log puts it on the owner's ready list once, however often the log changes.
cdef struct Watch:
    Watch* next
    Watch* previous
    Watch* ready_next
    WatchOwner* owner
    bint is_linked
    bint is_ready
    bint is_of_replica         # in the list of replicas' readers

cdef struct WatchOwner:
    Watch* ready_head
    Watch* ready_tail
    WatchOwner* woken_next
    bint is_parked             # only a parked owner is woken
    bint is_woken
    void* object               # opaque to the log


# How full the disk of a directory is; set by server/disk_watch.py as it fills up.
cdef class DiskState:
    cdef public bint is_tight             # disk space is allocated before a batch is accepted
    cdef public bint refuses_clients      # clients' records are refused
    cdef public bint is_read_only         # and so are the broker's own
    cdef public bint has_failed           # a write found no space since the last check


cdef class Turn:
    """The changes of one turn of the event loop and the work they cause, for the whole broker."""
    cdef public CommitThread commit
    cdef readonly OpenFiles files
    cdef public int64_t now_ms            # wall clock, set by the loop once a turn
    cdef public int64_t steady_ms         # monotonic clock, for ages; set likewise
    # Until when the broker may accept and acknowledge writes, in nanoseconds of CLOCK_MONOTONIC: in
    # a cluster others may lead its partitions afterwards. INT64_MAX: standalone, no limit.
    cdef public int64_t serves_until_ns
    cdef public int64_t unfenced_ms       # steady_ms at the end of the last fence; -1: none
    # Of its registration, under which it is elected; 0: standalone. After a new registration, it
    # leads nothing until it has been elected again.
    cdef public int64_t broker_epoch
    cdef uint8_t* spare                   # a log's staging buffer, free for the next log
    cdef uint32_t spare_capacity
    cdef list dirty                       # of AwaitedLog: with staged bytes or a sync to start
    cdef list aging                       # of AwaitedLog: with bytes to be synced within flush.ms
    cdef Histogram syncs                  # how long syncs have taken
    cdef readonly int64_t waiting_writes  # acknowledgements that wait, of all logs
    cdef AckWaiter* finished
    cdef AckWaiter* finished_tail
    cdef WatchOwner* woken
    cdef WatchOwner* woken_tail
    # Incremented when a log begins or ends loading, goes offline or begins a leader epoch.
    cdef public uint64_t log_changes
    cdef public list events               # (LogEvent, PartitionLog), for server/housekeeping.py
    cdef public object schedule           # called to have the loop run one more turn
    cdef public object decompress         # (codec, payload, output) → size: decompresses a batch
    cdef public int64_t decompressed_bytes_max
    cdef public object decompress_sent    # the same for a producer's batch, with strict checks
    cdef readonly DiskState disk          # of the data directory
    # Called when a write finds the disk full; once until `retry_full`.
    cdef public object when_full
    cdef bint is_full_reported
    cdef list full                        # of AwaitedLog: staged bytes the disk has no space for
    cdef list retry_queue                 # of AwaitedLog: no descriptor or memory for their sync
    cdef list expiring                    # of AwaitedLog: with waiters that have a `due_ms`
    cdef list lagging                     # of AwaitedLog: with a replica in sync behind the end
    # Of (log, replica's broker id, its broker epoch): that replica may be added to those in sync.
    cdef public list isr_events
    cdef public object when_in_sync       # called with the first of those; None: nobody is
    cdef public object when_awaiting      # called when a log is the first to expire, or to lag
    # What followers of throttled logs may copy from this broker, and what those here may copy.
    cdef readonly Throttle leader_throttle
    cdef readonly Throttle follower_throttle
    cdef bint is_running                  # a turn is running: its end handles all changes
    cdef bint is_requested

    cdef void forget(self, WatchOwner* owner) noexcept
    cpdef request_end(self)

    cdef void report_in_sync(self, AwaitedLog log, int32_t replica, int64_t broker_epoch)
    cdef void add_awaiting(self, list logs, AwaitedLog log)
    cdef void report_full(self)
    cdef void flush(self)
    cpdef void poll_synced(self)
    cdef void finish(self, AckWaiter* waiter, LogStatus status) noexcept
    cdef void retry_syncs(self)


cdef inline bint is_fenced(Turn turn) noexcept:
    """Return whether the broker may not accept or acknowledge writes now.

    It reads the clock itself, not once per turn: the process may have been stopped meanwhile.
    """
    return turn.serves_until_ns != INT64_MAX and monotonic_ns() >= turn.serves_until_ns


cdef inline bint may_acknowledge(Turn turn, int64_t broker_epoch) noexcept:
    """Return whether the broker still has the registration of this epoch, and is not fenced."""
    return broker_epoch == turn.broker_epoch and not is_fenced(turn)


cdef inline bint is_transient(int error) noexcept nogil:
    """Return whether an error is a lack of descriptors or memory, which is transient."""
    return error == -EMFILE or error == -ENFILE or error == -ENOMEM


cdef class AwaitedLog:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef Turn turn
    cdef public DiskState disk            # of the directory that has its folder
    cdef readonly int64_t high_watermark
    cdef readonly bint is_offline
    cdef readonly bint is_deleted
    cdef readonly bint is_released        # another broker leads it; `is_deleted` is set as well
    cdef int64_t broker_epoch             # of the registration under which the broker leads it
    cdef int64_t led_from_ms              # steady_ms at which it was led in a cluster; -1: never
    cdef readonly bint is_loading         # a thread recovers it: nothing else may be accessed
    cdef readonly bint is_replicated      # other brokers have replicas of it (replicated_log.pyx)
    cdef readonly bint awaits_role        # it was opened, and other brokers may have replicas
    cdef readonly bint is_follower        # another broker leads it: this is a copy of its log
    cdef readonly bint is_stopped         # it accepts no appends: another broker will lead it
    # Fewer replicas are in sync than min.insync.replicas; False for a follower.
    cdef readonly bint lacks_replicas
    cdef AckList acks                     # for the high watermark
    cdef Watch* watches
    cdef Watch* replica_watches           # of readers that copy it to another broker
    cdef list callbacks                   # of (offset, callable), set by Python code
    # Since the start; what the native paths do not see, Python adds:
    cdef public uint64_t failed_writes    # refused, or not acknowledged
    cdef public uint64_t rejected_bytes   # of those that were refused
    cdef public uint64_t failed_reads

    cdef void flush(self) noexcept
    cdef void synced(self) noexcept
    cdef void go_idle(self) noexcept
    cdef bint ages(self) noexcept
    cdef bint expire(self, int64_t now_ms) noexcept
    cdef bint add_lagging(self, int64_t now_ms, int64_t lag_ms, list found)
    cdef void reach(self, int64_t high_watermark) noexcept
    cdef void fail_waiters(self) noexcept
    cdef void fail_waiters_with(self, LogStatus status) noexcept
    cdef LogStatus service_status(self) noexcept
    cdef bint is_led_lately(self) noexcept
    cdef LogStatus storage_status(self) noexcept
    cdef void wait(self, AckWaiter* waiter) noexcept
    cdef void note_wait(self, AckWaiter* waiter) noexcept
    cdef void fail_waiter(self, AckWaiter* waiter, LogStatus status) noexcept
    cdef void watch(self, Watch* watch) noexcept
    cdef void watch_as_replica(self, Watch* watch) noexcept
    cdef void link_watch(self, Watch* watch, Watch** head, bint is_of_replica) noexcept
    cdef void unwatch(self, Watch* watch) noexcept
    cdef void wake(self) noexcept
    cdef void wake_replicas(self) noexcept
    cdef void wake_all(self) noexcept


cdef void ready_add(Watch* watch) noexcept
cdef void ready_remove(Watch* watch) noexcept
cdef void acks_add(AckList* acks, AckWaiter* waiter) noexcept nogil
cdef void acks_reach(Turn turn, AckList* acks, int64_t end) noexcept
cdef void acks_fail(AwaitedLog log, AckList* acks, LogStatus status) noexcept
cdef bint acks_expire(AwaitedLog log, AckList* acks, int64_t now_ms, int64_t* due_ms) noexcept
cdef void call_reached(AwaitedLog log, list waiting, int64_t end, bint is_good) noexcept
