from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t

from broker._native.log.replication cimport Replication
from broker._native.log.segmented_log cimport LogEnd, LogSlice
from broker._native.log.synced_log cimport SyncedLog
from broker._native.log.turn cimport AckWaiter, LogStatus


cdef class ReplicatedLog(SyncedLog):
    cdef Replication replication          # None: the partition has no other replica
    cdef readonly int32_t known_epoch     # of the state that gave it its role; -1: none yet
    cdef int32_t min_isr                  # min.insync.replicas
    cdef int32_t terms                    # how often it has forgotten what replicas have
    # In lists of the turn, which outlast `replication`:
    cdef bint is_expiring                 # in Turn.expiring
    cdef bint is_lagging                  # in Turn.lagging
    cdef bint throttles_followers         # what they copy counts for `Turn.leader_throttle`
    cdef bint is_throttled                # what it copies counts for `Turn.follower_throttle`

    cdef LogStatus note_position(self, int32_t replica, int64_t replica_epoch, int64_t offset,
                                 int64_t log_start) noexcept
    cdef LogStatus slice_for_replica(self, int64_t offset, int64_t size_max, bint at_least_one,
                                     LogSlice* found, PyObject** owner) noexcept
    cdef bint leads_caught_up(self) noexcept
    cdef bint is_throttling(self, int32_t replica) noexcept
    cdef bint holds_back(self, int32_t replica) noexcept
    cdef bint is_held_back(self) noexcept
    cdef int64_t replica_start(self) noexcept
    cdef int64_t bytes_for_replica(self, int64_t offset) noexcept
    cdef bint has_forgotten(self, int32_t epoch) noexcept
    cdef bint is_in_sync(self, int32_t replica) noexcept
    cdef bint cannot_compare(self, int32_t replica, int32_t last_epoch, int64_t offset,
                             int64_t log_start) noexcept
    cdef bint diverges(self, int32_t last_epoch, int64_t offset, int64_t log_start, int32_t* epoch,
                       int64_t* end) noexcept
    cdef int32_t replica_in_rack(self, bytes rack, dict racks, int64_t offset)
    cdef void wait_local(self, AckWaiter* waiter) noexcept
    cdef int64_t written_end(self) noexcept
    cdef int64_t kept_end(self) noexcept
    cdef LogEnd end_of_files(self) noexcept
    cdef void lower_watermark(self, const LogEnd* place) noexcept
    cdef void move_watermark(self) noexcept
    cdef void follow_leader(self, int64_t high_watermark, int64_t log_start) noexcept
    cdef void follow_start(self) noexcept
    cdef void forget_leader(self) noexcept
    cdef void check_starts(self) noexcept
    cdef void own_end_moved(self) noexcept
    cdef int begin_replication(self) except -1
    cdef int end_replication(self) except -1
    cdef void end_restored(self) noexcept
    cdef void dismiss_transactions(self) noexcept
    cdef void raise_watermark(self, const LogEnd* place) noexcept
    cdef void check_min_isr(self) noexcept
    cdef void list_lagging(self) noexcept
