from cpython.object cimport PyObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.log.commit cimport CommitThread, SyncJob
from broker._native.log.producer_state cimport ProducerBatch, ProducerTable, SequenceStatus
from broker._native.records.record_batch cimport BatchInfo
from broker._native.log.segment cimport Segment

# What an append or a read came to; a protocol has its own code for each.
cdef enum LogStatus:
    LOG_OK = 0
    LOG_OFFLINE            # the disk failed, or the partition is gone
    LOG_OUT_OF_RANGE       # an offset below the log start or above the log end

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

# A run of whole batches in one segment file.
cdef struct LogSlice:
    int64_t position
    int64_t size
    int64_t next_offset        # -1: not known without a look at the last batch


cdef class Turn:
    """What one turn of the loop changed and what follows from it, for the whole broker."""
    cdef public CommitThread commit
    cdef public int64_t now_ms            # wall clock, set by the loop once a turn
    cdef list dirty                       # of PartitionLog: staged bytes or an ack to arrange
    cdef AckWaiter* finished
    cdef AckWaiter* finished_tail
    cdef WatchOwner* woken
    cdef WatchOwner* woken_tail
    cdef public list events               # (kind, PartitionLog), drained by core/broker.py
    cdef public object schedule           # asks the loop for one more turn
    cdef public object decompress    # (codec, payload) → records, bounded; may raise CodecError
    cdef bint is_running                  # a turn is going on: its end will see to everything
    cdef bint is_requested

    cdef void forget(self, WatchOwner* owner) noexcept
    cdef bint has_work(self)
    cpdef request_end(self)

    cdef void flush(self)
    cdef void take_synced(self)
    cdef void finish(self, AckWaiter* waiter, LogStatus status) noexcept


cdef class PartitionLog:
    cdef readonly str topic
    cdef readonly bytes topic_id
    cdef readonly int32_t partition
    cdef readonly str folder
    cdef bytes folder_path
    cdef Turn turn

    cdef list segments                    # of Segment, oldest first; the last is active
    cdef Segment active
    cdef readonly int64_t log_start_offset
    cdef readonly int64_t log_end_offset
    cdef readonly int64_t durable_end
    cdef readonly int64_t high_watermark
    cdef Segment visible_segment          # where the high watermark stands
    cdef int64_t visible_position
    cdef int64_t visible_max_timestamp    # of the batches up to there in that segment
    cdef readonly int32_t leader_epoch
    cdef list epochs                      # of (epoch, start offset), oldest first
    cdef ProducerTable producers

    cdef readonly bint is_offline
    cdef readonly bint is_deleted
    cdef bint is_dirty
    cdef readonly bint is_group_commit
    cdef bint is_plain                    # no setting asks for more than the fast path does
    cdef int32_t batch_bytes_max
    cdef int32_t index_interval_bytes
    cdef int64_t segment_bytes_max
    cdef int64_t segment_ms
    cdef int64_t behind_ms_max            # message.timestamp.before.max.ms
    cdef int64_t ahead_ms_max             # message.timestamp.after.max.ms

    cdef uint8_t* staged
    cdef uint32_t staged_size
    cdef uint32_t staged_capacity

    cdef AckWaiter* acks_head
    cdef AckWaiter* acks_tail
    cdef Watch* watches
    cdef list callbacks                   # of (offset, callable), from Python
    cdef SyncJob job
    cdef bint job_is_running
    cdef Segment job_segment
    cdef int64_t job_position
    cdef int64_t job_max_timestamp
    cdef list unsealed                    # full segments whose files are not yet synced
    cdef list unsynced_indexes            # segments whose index files are not yet synced
    cdef uint64_t request_mark            # the last request that named this log (produce.pyx)

    cdef bint accepts_times(self, BatchInfo* info) noexcept
    cdef LogStatus append_batch(self, uint8_t* batch, BatchInfo* info,
                                int64_t* base_offset) noexcept
    cdef SequenceStatus check_sequence(self, BatchInfo* info, ProducerBatch* duplicate) noexcept
    cdef void wait(self, AckWaiter* waiter) noexcept
    cdef void watch(self, Watch* watch) noexcept
    cdef void unwatch(self, Watch* watch) noexcept
    cdef LogStatus slice(self, int64_t offset, int64_t size_max, bint at_least_one,
                         LogSlice* found, PyObject** segment) noexcept
    cdef int64_t visible_bytes(self, int64_t offset) noexcept
    cdef void flush(self) noexcept
    cdef void synced(self) noexcept
    cdef void fail(self, int error) noexcept
    cdef void let_go(self) noexcept
    cdef void wake(self) noexcept
    cdef bint must_roll(self, BatchInfo* info) noexcept
    cdef int put(self, Segment segment, const uint8_t* batch, size_t size) noexcept
    cdef int write_staged(self) noexcept
    cdef int roll(self) noexcept
    cdef void remember_producer(self, BatchInfo* info, int64_t base_offset) noexcept
    cdef void start_sync(self) noexcept
    cdef int sync_folder_too(self) noexcept
    cdef void close_folder(self) noexcept
    cdef void advance(self, int64_t high_watermark, Segment segment, int64_t position,
                      int64_t max_timestamp) noexcept
    cdef void call_back(self, bint is_durable)
    cdef Segment segment_of(self, int64_t offset)
    cdef Segment segment_after(self, Segment segment)
    cdef object find_in_segment(self, Segment segment, int64_t timestamp)
