from cpython.object cimport PyObject
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.log.commit cimport SyncJob
from broker._native.log.producer_state cimport ProducerBatch, ProducerTable, SequenceStatus
from broker._native.log.segment cimport Segment
from broker._native.log.turn cimport AwaitedLog, LogStatus
from broker._native.records.record_batch cimport BatchInfo

# A run of whole batches in one segment file.
cdef struct LogSlice:
    int64_t position
    int64_t size
    int64_t next_offset        # -1: not known without a look at the last batch


cdef class PartitionLog(AwaitedLog):
    cdef readonly bytes topic_id
    cdef readonly str folder
    cdef bytes folder_path

    cdef list segments                    # of Segment, oldest first; the last is active
    cdef Segment active
    cdef readonly int64_t log_start_offset
    cdef readonly int64_t log_end_offset
    cdef readonly int64_t durable_end
    cdef Segment visible_segment          # where the high watermark stands
    cdef int64_t visible_position
    cdef int64_t visible_max_timestamp    # of the batches up to there in that segment
    cdef readonly int32_t leader_epoch
    cdef list epochs                      # of (epoch, start offset), oldest first
    cdef ProducerTable producers

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
    cdef LogStatus slice(self, int64_t offset, int64_t size_max, bint at_least_one,
                         LogSlice* found, PyObject** segment) noexcept
    cdef int64_t visible_bytes(self, int64_t offset) noexcept
    cdef void fail(self, int error) noexcept
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
    cdef Segment segment_of(self, int64_t offset)
    cdef Segment segment_after(self, Segment segment)
