from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from broker._native.log.commit cimport SyncJob
from broker._native.log.segment cimport Segment
from broker._native.log.segmented_log cimport SegmentedLog
from broker._native.log.turn cimport LogStatus


cdef class SyncedLog(SegmentedLog):
    cdef readonly int64_t durable_end
    # Since the start:
    cdef readonly uint64_t records_in     # appended as the leader
    cdef readonly uint64_t bytes_in       # likewise
    cdef readonly uint64_t bytes_copied   # appended as a follower
    cdef uint64_t job_bytes               # both, when the job was started
    cdef uint64_t synced_bytes            # of these, what is durable
    cdef bint is_dirty
    cdef readonly bint is_group_commit
    cdef bint is_preallocated             # a new segment's file is preallocated whole
    cdef int64_t flush_messages           # under `os`: a sync starts at this many unsynced records
    cdef readonly int64_t flush_ms        # or at this age of the oldest of them
    cdef int64_t unsynced_since_ms        # 0: nothing is unsynced
    cdef bint is_aging                    # in Turn.aging
    cdef uint8_t* staged
    cdef uint32_t staged_size
    cdef uint32_t staged_capacity
    cdef SyncJob job
    cdef bint job_is_running
    cdef readonly bint is_full            # the disk had no space for the staged bytes; write again
    cdef bint is_held                     # a thread cuts it: nothing is written or synced
    cdef readonly bint is_switching       # to another folder: nothing is acknowledged or synced
    cdef bint has_unsynced_cut            # a file was truncated since its last sync
    cdef int64_t job_started_ms
    cdef bint is_going_idle               # its file is closed as soon as its sync has ended
    cdef Segment job_segment
    cdef int64_t job_position
    cdef int64_t job_max_timestamp
    cdef list unsealed                    # full segments whose files are not yet synced
    cdef list unsynced_indexes            # segments whose index files are not yet synced
    cdef list sync_callbacks              # of (offset, callable): called once the disk has it

    cdef LogStatus refuse(self, int status) noexcept
    cdef void keep_staged(self) noexcept
    cdef int put(self, Segment segment, const uint8_t* batch, size_t size) noexcept
    cdef bint take_spare(self, size_t size) noexcept
    cdef void leave_spare(self) noexcept
    cdef int write_staged(self) noexcept
    cdef int begin_segment(self) noexcept
    cdef void mark_dirty(self) noexcept
    cdef void written_for_replicas(self) noexcept
    cdef void synced_for_replicas(self) noexcept
    cdef bint is_sync_due(self) noexcept
    cdef bint owes_sync(self) noexcept
    cdef void begin_to_age(self) noexcept
    cdef void close_active(self) noexcept
    cdef void start_sync(self) noexcept
    cdef void close_folder(self) noexcept
