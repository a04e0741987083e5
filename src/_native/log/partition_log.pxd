from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.log.commit cimport SyncJob
from broker._native.log.producer_state cimport ProducerBatch, ProducerTable, SequenceStatus
from broker._native.log.segment cimport Segment
from broker._native.log.segmented_log cimport SegmentedLog
from broker._native.log.transactions cimport Transactions
from broker._native.log.turn cimport LogStatus
from broker._native.records.record_batch cimport BatchInfo


cdef class PartitionLog(SegmentedLog):
    cdef readonly bytes topic_id
    cdef readonly int64_t durable_end
    cdef ProducerTable producers
    cdef Transactions transactions

    cdef bint is_dirty
    cdef readonly bint is_group_commit
    cdef bint is_plain                    # no setting needs the Python handler
    cdef bint needs_keys                  # clients' records must have keys: the log is compacted
    cdef readonly uint32_t protocol_flags  # opaque to the log: each bit is one protocol's
    cdef int32_t batch_bytes_max
    cdef int32_t index_interval_bytes
    cdef int64_t index_entries_max        # segment.index.bytes, in entries of the larger kind
    cdef int64_t segment_ms
    cdef int64_t segment_jitter_ms        # the most that is subtracted from segment.ms
    cdef bint is_preallocated             # a new segment's file is preallocated whole
    cdef int64_t flush_messages           # under `os`: a sync starts at this many unsynced records
    cdef readonly int64_t flush_ms        # or at this age of the oldest of them
    cdef int64_t unsynced_since_ms        # 0: nothing is unsynced
    cdef bint is_aging                    # in Turn.aging
    cdef int64_t before_ms_max            # message.timestamp.before.max.ms
    cdef int64_t after_ms_max             # message.timestamp.after.max.ms

    cdef uint8_t* staged
    cdef uint32_t staged_size
    cdef uint32_t staged_capacity

    cdef SyncJob job
    cdef bint job_is_running
    cdef readonly bint is_full            # the disk had no space for the staged bytes; write again
    cdef bint has_unsynced_cut            # a file was truncated since its last sync
    cdef int64_t job_started_ms
    cdef bint is_going_idle               # its file is closed as soon as its sync has ended
    cdef Segment job_segment
    cdef int64_t job_position
    cdef int64_t job_max_timestamp
    cdef list unsealed                    # full segments whose files are not yet synced
    cdef list unsynced_indexes            # segments whose index files are not yet synced
    cdef uint64_t request_mark            # of the last request that named it
    cdef list sync_callbacks              # of (offset, callable): called once the disk has it

    cdef bint accepts_times(self, BatchInfo* info) noexcept
    cdef LogStatus append_batch(self, uint8_t* batch, BatchInfo* info,
                                int64_t* base_offset) noexcept
    cdef SequenceStatus check_sequence(self, BatchInfo* info, ProducerBatch* duplicate) noexcept
    cdef int open_to_write(self, Segment segment) noexcept
    cdef bint must_roll(self, BatchInfo* info) noexcept
    cdef bint may_roll(self, BatchInfo* info) noexcept
    cdef LogStatus refuse(self, int status) noexcept
    cdef void keep_staged(self) noexcept
    cdef int put(self, Segment segment, const uint8_t* batch, size_t size) noexcept
    cdef bint take_spare(self, size_t size) noexcept
    cdef void leave_spare(self) noexcept
    cdef int write_staged(self) noexcept
    cdef int begin_segment(self) noexcept
    cdef void mark_dirty(self) noexcept
    cdef bint is_sync_due(self) noexcept
    cdef bint owes_sync(self) noexcept
    cdef bint fits_transaction(self, BatchInfo* info) noexcept
    cdef void begin_to_age(self) noexcept
    cdef int64_t jitter_of(self, Segment segment) noexcept
    cdef int trim(self) noexcept
    cdef void close_active(self) noexcept
    cdef void update_producer(
        self, const uint8_t* data, BatchInfo* info, int64_t base_offset) noexcept
    cdef int note_abort(
        self, Segment segment, const uint8_t* data, BatchInfo* info, int64_t base_offset) noexcept
    cdef void end_transaction(
        self, const uint8_t* data, BatchInfo* info, int64_t marker_offset) noexcept
    cdef bint restore_producers(self, bytes snapshot) except -1
    cdef void clear_producers(self)
    cdef void start_sync(self) noexcept
    cdef int sync_folder_too(self) noexcept
    cdef void close_folder(self) noexcept
