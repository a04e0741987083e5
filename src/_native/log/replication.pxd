from libc.stdint cimport int32_t, int64_t

from broker._native.log.segmented_log cimport LogEnd
from broker._native.log.turn cimport AckList

cdef enum:
    PLACES_KEPT = 8

# Another broker's replica, as the leader knows it. Times are of Turn.steady_ms.
cdef struct Follower:
    int32_t id
    int64_t broker_epoch       # of its last report; -1: none
    int64_t offset             # its disk has everything below; -1: not known in this epoch
    int64_t log_start          # of its log; -1: not known in this epoch
    int64_t caught_up_ms       # when it last had all that there was to copy
    int64_t reported_ms        # when it last reported its offset
    int64_t reported_end       # and the end of the leader's log then
    int64_t proposed_ms        # when it was last reported as fit to be in sync; -1: not yet
    bint is_in_sync            # in the ISR, or its addition is being written


cdef class Replication:
    """What a replicated log knows of the other replicas, and where its own ends are."""
    cdef Follower* followers
    cdef int32_t follower_count
    cdef int32_t committed                # members of the ISR as it is stored, with the leader
    cdef int64_t epoch_start              # the log's end when its leader's epoch began
    cdef int64_t leader_watermark         # a follower: the high watermark of its leader
    cdef int64_t leader_start             # a follower: the log start offset of its leader
    cdef LogEnd written                   # the end of what is in the files
    cdef LogEnd synced                    # the end of what is on the disk
    cdef LogEnd places[PLACES_KEPT]       # ends that may become the high watermark
    cdef int next_place
    cdef AckList local_acks               # waiters for this replica only
    cdef list local_callbacks             # of (offset, callable): the same, set by Python code
    cdef list start_callbacks             # of (offset, callable): for log starts of replicas
    cdef int64_t due_ms                   # when the first of all waiters is due; 0: never

    cdef Follower* find(self, int32_t replica) noexcept
    cdef int set_replicas(self, int32_t self_id, list replicas, int64_t now_ms) except -1
    cdef int set_in_sync(self, list isr) except -1
    cdef int forget_positions(self, int64_t now_ms) except -1
    cdef bint is_below(self, int32_t min_isr) noexcept
    cdef int64_t end_in_sync(self, int64_t own_end) noexcept
    cdef int64_t start_in_sync(self, int64_t own_start) noexcept
    cdef bint is_behind(self, int64_t end) noexcept
    cdef void leave_end(self, int64_t end, int64_t now_ms) noexcept
    cdef bint report(self, Follower* follower, int64_t broker_epoch, int64_t offset,
                     int64_t log_start, int64_t end, int64_t now_ms) noexcept
    cdef bint may_propose(self, Follower* follower, int64_t watermark, int64_t now_ms) noexcept
    cdef void keep_place(self, const LogEnd* end) noexcept
    cdef bint known_place(self, int64_t offset, LogEnd* place) noexcept
    cdef void note_due(self, int64_t due_ms) noexcept
