"""The other replicas of one partition, as its leader knows them.

A follower reports the end of what its own disk has, so a record below the smallest of those ends
is on the disk of each of them. The high watermark is the smallest end of the replicas in sync:
those of the stored ISR, and those whose addition to it is being written. It stays where it is while
the stored ISR has fewer members than min.insync.replicas (KIP-966).

A follower was caught up at a time when it had everything that there was to copy then. It tells that
one report late, unless it is at the end: what it has now may be all that there was at its report
before. One that has not been caught up for replica.lag.time.max.ms is removed from the ISR. One
outside of it is fit to be added when it is at the high watermark, and at the end that the log had
when this leader's epoch began: below that, it may lack records that the last leader acknowledged.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from broker._native.log.segmented_log cimport LogEnd

from broker.model import limits

assert PLACES_KEPT == limits.REPLICA_PLACES_KEPT

cdef int64_t PROPOSAL_REPEAT_MS = limits.ISR_PROPOSAL_REPEAT_MS


@cython.final
cdef class Replication:
    """What a replicated log knows of the other replicas, and where its own ends are."""

    def __cinit__(self):
        self.leader_watermark = self.leader_start = -1
        self.local_callbacks = []
        self.start_callbacks = []

    def __dealloc__(self):
        free(self.followers)

    cdef Follower* find(self, int32_t replica) noexcept:
        cdef int32_t i
        for i in range(self.follower_count):
            if self.followers[i].id == replica:
                return &self.followers[i]
        return NULL

    cdef int set_replicas(self, int32_t self_id, list replicas, int64_t now_ms) except -1:
        """Set which brokers have a replica; what is known of those that stay is kept.

        Return how many are new.
        """
        cdef list others = [replica for replica in replicas if replica != self_id]
        cdef Follower* followers = <Follower*>calloc(len(others) or 1, sizeof(Follower))
        cdef Follower* known
        cdef int32_t count = 0, added = 0
        if followers == NULL:
            raise MemoryError
        for replica in others:
            known = self.find(replica)
            if known != NULL:
                followers[count] = known[0]
            else:
                followers[count].id = replica
                reset(&followers[count], now_ms)
                added += 1
            count += 1
        free(self.followers)
        self.followers = followers
        self.follower_count = count
        return added

    cdef int set_in_sync(self, list isr) except -1:
        """Set which replicas are in sync; the others may be proposed again."""
        cdef int32_t i
        for i in range(self.follower_count):
            self.followers[i].is_in_sync = self.followers[i].id in isr
            self.followers[i].proposed_ms = -1
        return 0

    cdef int forget_positions(self, int64_t now_ms) except -1:
        """Begin a leader epoch: nothing is known of any replica, and all were caught up just now.
        """
        cdef int32_t i
        for i in range(self.follower_count):
            reset(&self.followers[i], now_ms)
        return 0

    cdef bint is_below(self, int32_t min_isr) noexcept:
        """Return whether the stored ISR has fewer members than min.insync.replicas.

        Of a partition with fewer replicas than that, all must be in sync.
        """
        return self.committed < min(min_isr, self.follower_count + 1)

    cdef int64_t end_in_sync(self, int64_t own_end) noexcept:
        """Return the smallest end of the replicas in sync; -1 if one of them is not known."""
        cdef int64_t end = own_end
        cdef int32_t i
        for i in range(self.follower_count):
            if self.followers[i].is_in_sync:
                end = min(end, self.followers[i].offset)
        return end

    cdef int64_t start_in_sync(self, int64_t own_start) noexcept:
        """Return the smallest log start of the replicas in sync; -1 if one of them is not known."""
        cdef int64_t start = own_start
        cdef int32_t i
        for i in range(self.follower_count):
            if self.followers[i].is_in_sync:
                start = min(start, self.followers[i].log_start)
        return start

    cdef bint is_behind(self, int64_t end) noexcept:
        """Return whether a replica in sync is not at the end of the leader's log."""
        cdef int32_t i
        for i in range(self.follower_count):
            if self.followers[i].is_in_sync and self.followers[i].offset < end:
                return True
        return False

    cdef void leave_end(self, int64_t end, int64_t now_ms) noexcept:
        """Note that the leader's log grows now: whoever is at its end has been caught up until now.
        """
        cdef int32_t i
        for i in range(self.follower_count):
            if self.followers[i].offset >= end:
                self.followers[i].caught_up_ms = now_ms

    cdef bint report(self, Follower* follower, int64_t broker_epoch, int64_t offset,
                     int64_t log_start, int64_t end, int64_t now_ms) noexcept:
        """Note a follower's end and log start, and the leader's end. False: of an older process.

        A broker epoch of -1 is that of a follower which does not tell it.
        """
        if broker_epoch >= 0:
            if broker_epoch < follower.broker_epoch:
                return False
            if broker_epoch > follower.broker_epoch:
                follower.broker_epoch = broker_epoch
                follower.proposed_ms = -1
        if offset >= end:
            follower.caught_up_ms = now_ms
        elif offset >= follower.reported_end >= 0:
            follower.caught_up_ms = max(follower.caught_up_ms, follower.reported_ms)
        follower.offset = offset
        follower.log_start = log_start
        follower.reported_ms = now_ms
        follower.reported_end = end
        return True

    cdef bint may_propose(self, Follower* follower, int64_t watermark, int64_t now_ms) noexcept:
        """Return whether a follower is fit to be in sync and should be proposed for it now."""
        if (follower.is_in_sync or follower.offset < watermark
                or follower.offset < self.epoch_start):
            return False
        if follower.proposed_ms >= 0 and now_ms - follower.proposed_ms < PROPOSAL_REPEAT_MS:
            return False
        follower.proposed_ms = now_ms
        return True

    # ---- places in the files --------------------------------------------------------------------

    cdef void keep_place(self, const LogEnd* end) noexcept:
        """Keep an end up to which a replica copies: its next report most likely names it."""
        if self.places[(self.next_place + PLACES_KEPT - 1) % PLACES_KEPT].offset == end.offset:
            return
        self.places[self.next_place] = end[0]
        self.next_place = (self.next_place + 1) % PLACES_KEPT

    cdef bint known_place(self, int64_t offset, LogEnd* place) noexcept:
        cdef int i
        if offset == self.synced.offset:
            place[0] = self.synced
            return True
        if offset == self.written.offset:
            place[0] = self.written
            return True
        for i in range(PLACES_KEPT):
            if self.places[i].offset == offset and self.places[i].position > 0:
                place[0] = self.places[i]
                return True
        return False

    cdef void note_due(self, int64_t due_ms) noexcept:
        if due_ms > 0 and (self.due_ms == 0 or due_ms < self.due_ms):
            self.due_ms = due_ms


cdef void reset(Follower* follower, int64_t now_ms) noexcept nogil:
    follower.broker_epoch = -1
    follower.offset = follower.log_start = -1
    follower.caught_up_ms = follower.reported_ms = now_ms
    follower.reported_end = -1
    follower.proposed_ms = -1
