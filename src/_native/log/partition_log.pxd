from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.log.producer_state cimport ProducerBatch, ProducerTable, SequenceStatus
from broker._native.log.segment cimport Segment
from broker._native.log.replicated_log cimport ReplicatedLog
from broker._native.log.transactions cimport Transactions
from broker._native.log.turn cimport LogStatus
from broker._native.records.record_batch cimport BatchInfo, BatchStatus


cdef class PartitionLog(ReplicatedLog):
    cdef readonly bytes topic_id
    cdef ProducerTable producers
    cdef Transactions transactions

    cdef bint is_plain                    # no setting needs the Python handler
    cdef bint needs_keys                  # clients' records must have keys: the log is compacted
    cdef readonly uint32_t protocol_flags  # opaque to the log: each bit is one protocol's
    cdef int32_t batch_bytes_max
    cdef int32_t index_interval_bytes
    cdef int64_t index_entries_max        # segment.index.bytes, in entries of the larger kind
    cdef int64_t segment_ms
    cdef int64_t segment_jitter_ms        # the most that is subtracted from segment.ms
    cdef int64_t before_ms_max            # message.timestamp.before.max.ms
    cdef int64_t after_ms_max             # message.timestamp.after.max.ms

    cdef uint64_t request_mark            # of the last request that named it

    cdef bint accepts(
        self, BatchInfo* info, ProducerBatch* original, bint* is_duplicate) noexcept
    cdef bint accepts_times(self, BatchInfo* info) noexcept
    cdef LogStatus append_batch(self, uint8_t* batch, BatchInfo* info,
                                int64_t* base_offset) noexcept
    cdef SequenceStatus check_sequence(self, BatchInfo* info, ProducerBatch* duplicate) noexcept
    cdef bint complete_producer(self, int64_t producer_id) noexcept
    cdef LogStatus append_replicated(
        self, const uint8_t* data, size_t size, int64_t high_watermark, int64_t log_start,
        int32_t leader_epoch) noexcept
    cdef LogStatus append_copies(
        self, const uint8_t* data, size_t size, int64_t high_watermark,
        int32_t leader_epoch) noexcept
    cdef LogStatus check_copy(
        self, const uint8_t* batch, BatchInfo* info, BatchStatus found, int64_t end_offset,
        int64_t high_watermark, int32_t leader_epoch) noexcept
    cdef bint run_is_full(self, BatchInfo* info, int64_t run_size) noexcept
    cdef void enter_epoch(self, int32_t epoch, int64_t base_offset) noexcept
    cdef LogStatus append_run(self, const uint8_t* data, size_t size) noexcept
    cdef bint must_roll(self, BatchInfo* info, int64_t base_offset) noexcept
    cdef bint may_roll(self, BatchInfo* info, int64_t base_offset) noexcept
    cdef bint fits_transaction(self, BatchInfo* info) noexcept
    cdef int64_t jitter_of(self, Segment segment) noexcept
    cdef void update_producer(
        self, const uint8_t* data, BatchInfo* info, int64_t base_offset) noexcept
    cdef int note_abort(
        self, Segment segment, const uint8_t* data, BatchInfo* info, int64_t base_offset) noexcept
    cdef bint restore_producers(self, bytes snapshot) except -1
    cdef void clear_producers(self)
