from libc.errno cimport EMFILE, ENFILE, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.log.commit cimport CommitThread
from broker._native.log.open_files cimport OpenFiles

# What an append or a read came to; a protocol has its own code for each.
cdef enum LogStatus:
    LOG_OK = 0
    LOG_OFFLINE            # the disk failed, or the partition is gone
    LOG_OUT_OF_RANGE       # an offset below the log start or above the log end
    LOG_LOADING            # its files are not recovered yet
    LOG_FULL               # the disk has no room: later, as it was asked

cdef enum:    # kinds of Turn.events
    EVENT_ROLLED = 1           # the log has a new active segment
    EVENT_OFFLINE = 2          # its disk failed
    EVENT_BROKEN = 3           # a reader has found a closed segment that makes no sense

# One acknowledgement that waits until the log is visible up to an offset. Owned by whoever waits;
# the log links it, and hands it back through Turn.finished.
cdef struct AckWaiter:
    AckWaiter* next
    int64_t offset             # ready when the high watermark reaches it
    void* owner                # opaque to the log
    uint32_t place             # opaque: where in the owner's reply the error code stands
    LogStatus status

# One reader's interest in one log. Linked into the log's list for as long as the owner likes; a
# change of the log puts it on the owner's ready list once, however often the log changes.
cdef struct Watch:
    Watch* next
    Watch* previous
    Watch* ready_next
    WatchOwner* owner
    bint is_linked
    bint is_ready

cdef struct WatchOwner:
    Watch* ready_head
    Watch* ready_tail
    WatchOwner* woken_next
    bint is_parked             # only a parked owner is woken
    bint is_woken
    void* object               # opaque to the log


cdef class Turn:
    """What one turn of the loop changed and what follows from it, for the whole broker."""
    cdef public CommitThread commit
    cdef readonly OpenFiles files
    cdef public int64_t now_ms            # wall clock, set by the loop once a turn
    cdef public int64_t steady_ms         # the same, but no step of the wall clock moves it: ages
    cdef uint8_t* spare                   # what one log staged in, for the next one that stages
    cdef uint32_t spare_capacity
    cdef list dirty                       # of AwaitedLog: staged bytes or an ack to arrange
    cdef list aging                       # of AwaitedLog: bytes that flush.ms wants synced in time
    cdef AckWaiter* finished
    cdef AckWaiter* finished_tail
    cdef WatchOwner* woken
    cdef WatchOwner* woken_tail
    # Grows whenever a log begins or ends to load, goes offline or begins a leader epoch.
    cdef public uint64_t log_changes
    cdef public list events               # (kind, PartitionLog), drained by core/broker.py
    cdef public object schedule           # asks the loop for one more turn
    cdef public object unfold             # (codec, payload, output) → size: unpacks a batch
    cdef public int64_t unfolded_bytes_max
    cdef public object unfold_sent        # the same of a producer's batch: what others can read
    # What core/disk_space.py decides: room is taken before a batch is; clients' records, and then
    # the broker's own, are refused.
    cdef public bint is_tight
    cdef public bint refuses_clients
    cdef public bint is_read_only
    cdef public object when_full          # asks for a look at the disk now; once until `retry_full`
    cdef bint is_full_told
    cdef list full                        # of AwaitedLog: staged bytes that found no room
    cdef list wanting                     # of AwaitedLog: no descriptor or memory for their sync
    cdef bint is_running                  # a turn is going on: its end will see to everything
    cdef bint is_requested

    cdef void forget(self, WatchOwner* owner) noexcept
    cdef bint has_work(self)
    cpdef request_end(self)

    cdef void found_full(self)
    cdef void flush(self)
    cdef void take_synced(self)
    cdef void finish(self, AckWaiter* waiter, LogStatus status) noexcept
    cdef void retry_wanting(self)


cdef inline bint is_wanting(int error) noexcept nogil:
    """Whether something failed for want of descriptors or memory: that passes."""
    return error == -EMFILE or error == -ENFILE or error == -ENOMEM


cdef class AwaitedLog:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef Turn turn
    cdef readonly int64_t high_watermark
    cdef readonly bint is_offline
    cdef readonly bint is_deleted
    cdef readonly bint is_loading         # a thread recovers it: nothing else is to be looked at
    cdef AckWaiter* acks_head             # by offset
    cdef AckWaiter* acks_tail
    cdef Watch* watches
    cdef list callbacks                   # of (offset, callable), from Python

    cdef void flush(self) noexcept
    cdef void synced(self) noexcept
    cdef void rest(self) noexcept
    cdef bint ages(self) noexcept
    cdef void reach(self, int64_t high_watermark) noexcept
    cdef void let_go(self) noexcept
    cdef void let_go_as(self, LogStatus status) noexcept
    cdef void wait(self, AckWaiter* waiter) noexcept
    cdef void watch(self, Watch* watch) noexcept
    cdef void unwatch(self, Watch* watch) noexcept
    cdef void wake(self) noexcept
    cdef void call_back(self, bint is_durable)


cdef void call_reached(AwaitedLog log, list waiting, int64_t end, bint is_good) noexcept
