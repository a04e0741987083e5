"""Fetch, versions 15-18, of replicas: brokers that copy the partitions that this one leads.

A replica's fetch offset is the end of what it has on its disk, so a request acknowledges everything
before it. The log is told the positions of the partitions that the request names, and the others
have not moved. A replica reads up to the end of what is written, above the high watermark.

A session has a node per partition, as for consumers (fetch.pyx), but known by topic id and number:
a replica may ask for a partition that this broker does not lead, not yet or not any more. Nothing
about a partition ends the session. After it was sent records of a partition, it gets more when it
has named the partition again: its next request may leave while those are not on its disk yet. Its
error, or the end of the last common epoch if the logs diverge (KIP-595), is sent once, and again
after the replica has named the partition again; until then the partition is looked up anew at each
request, and its data follows when the error is gone.

A broker that is fenced for a moment leads again in the same epoch, and its logs have forgotten the
positions. They are noted again with the next request: the replica may have no reason to name them.

A partition costs nothing while it does not change. A request waits for min_bytes of records, an
error, a divergence or a log start that moves: who deletes records may wait for the replicas. A high
watermark that moves is in the next answer; if there is nothing else to tell, that is
REPLICA_NEWS_DELAY_MS later, and so there are no more such answers than one in that time. The
replica needs it to serve consumers, and to know what is committed if it is elected. A request that
waits is answered as soon as the next bytes arrive on its connection: the replica has something to
report.

A replica that is not in sync gets no records of a throttled log while the throttle is spent; its
request waits as if there were none.

A request of another registration than that which the broker knows (TopicTable.brokers) is refused
(KIP-903): it was sent before a restart of the replica, which may have lost what it acknowledges.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from broker._native.kernel.big_endian cimport store_uint16, store_uint32
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.partition_map cimport map_add, map_find, map_free, map_remove
from broker._native.log.turn cimport (
    LOG_NOT_REPLICA, LOG_OFFLINE, LOG_OK, LOG_OUT_OF_RANGE, LogStatus, Watch, ready_add,
    ready_remove,
)
from broker._native.messages.error_codes cimport (
    ERROR_FENCED_LEADER_EPOCH,
    ERROR_FETCH_SESSION_ID_NOT_FOUND,
    ERROR_INVALID_FETCH_SESSION_EPOCH,
    ERROR_KAFKA_STORAGE_ERROR,
    ERROR_NOT_LEADER_OR_FOLLOWER,
    ERROR_OFFSET_OUT_OF_RANGE,
    ERROR_STALE_BROKER_EPOCH,
    ERROR_UNKNOWN_LEADER_EPOCH,
    ERROR_UNKNOWN_TOPIC_ID,
    ERROR_UNKNOWN_TOPIC_OR_PARTITION,
)
from broker._native.messages.fields cimport TOPIC_ID_SIZE, put_tags
from broker._native.protocols.kafka.fetch_reply cimport (
    COPIED_MAX,
    DIVERGING_SIZE,
    PART_HEAD_SIZE_MAX,
    PartitionHead,
    put_diverging,
    put_head,
    put_padded,
    put_records,
    queue_tags,
)
from broker._native.protocols.kafka.parked_fetch cimport FETCH_NOT_SERVED, FETCH_PARKED, FETCH_READY
from broker._native.wire.output_queue cimport queue_commit, queue_reserve
from broker._native.wire.request_meter cimport meter_error

import os

from broker.model import limits

cdef int64_t NEWS_DELAY_MS = limits.REPLICA_NEWS_DELAY_MS

cdef enum:
    HEAD_SIZE = 4 + 4 + 1 + 4 + 2 + 4 + 5
    TOPIC_HEAD_SIZE = TOPIC_ID_SIZE + 5


@cython.no_gc_clear    # `sessions` would be cleared before the partitions are dropped
@cython.final
cdef class ReplicaSession(ParkedFetch):
    """The partitions that one replica copies over one connection, and its current request."""

    def __cinit__(self, ReplicaSessions sessions, Connection connection):
        self.sessions = sessions
        self.map.key = sessions.hash_key
        self.origin = connection
        self.turn = connection.poller.turn
        self.topics = connection.poller.topics
        self.ends_by_input = True
        self.is_of_replica = True

    def __dealloc__(self):
        self.clear()

    cdef void clear(self) noexcept:
        self.unmark_all()    # removing each one would be a walk
        while self.first != NULL:
            self.drop(self.first)
        map_free(&self.map)

    # ---- its partitions -----------------------------------------------------------------------

    cdef ReplicaNode* add(self, Wanted* wanted) noexcept:
        """Append a node; return NULL without memory."""
        cdef ReplicaNode* node = <ReplicaNode*>calloc(1, sizeof(ReplicaNode))
        if node == NULL or not map_add(
                &self.map, &node.named, wanted.topic_id, wanted.partition):
            free(node)
            return NULL
        node.named.watch.owner = &self.owner
        node.sent_high_watermark = node.sent_log_start = -1
        node.previous = self.last
        if self.last == NULL:
            self.first = node
        else:
            self.last.next = node
        self.last = node
        self.sessions.partitions += 1
        return node

    cdef void drop(self, ReplicaNode* node) noexcept:
        """Remove a partition."""
        map_remove(&self.map, &node.named)
        if node.previous == NULL:
            self.first = node.next
        else:
            node.previous.next = node.next
        if node.next == NULL:
            self.last = node.previous
        else:
            node.next.previous = node.previous
        self.sessions.partitions -= 1
        ready_remove(&node.named.watch)
        if node.log != NULL:
            (<PartitionLog>node.log).unwatch(&node.named.watch)
            Py_DECREF(<object>node.log)
        free(node)

    cdef void apply(self, FetchRequest* request):
        # Applies the partitions that the request names, and looks again at those with an error, or
        # whose positions the logs have forgotten.
        cdef Wanted* wanted
        cdef ReplicaNode* node
        cdef Watch* watch = self.owner.ready_head
        cdef int32_t i
        while watch != NULL:
            node = <ReplicaNode*>watch
            watch = watch.ready_next
            if node.sent_error != 0 or self.is_forgotten(node):
                self.examine(node, self.topics.find_id(node.named.topic_id))
        for i in range(request.wanted):
            wanted = &request.named[i]
            node = <ReplicaNode*>map_find(&self.map, wanted.topic_id, wanted.partition)
            if node == NULL:
                node = self.add(wanted)
                if node == NULL:
                    return
            if node.leader_epoch != wanted.leader_epoch:
                node.sent_high_watermark = -1    # the replica has forgotten it
            node.offset = wanted.offset
            node.log_start = wanted.log_start
            node.leader_epoch = wanted.leader_epoch
            node.last_epoch = wanted.last_epoch
            node.bytes_max = wanted.bytes_max
            node.sent_error = 0
            node.is_sent = False
            self.examine(node, None if wanted.topic == NULL else <TopicEntry>wanted.topic)
            ready_add(&node.named.watch)
        if request.forgotten > 0:
            self.forget(request)

    cdef void forget(self, FetchRequest* request):
        cdef Wanted* wanted
        cdef ReplicaNode* node
        cdef int32_t i
        for i in range(request.wanted, request.wanted + request.forgotten):
            wanted = &request.named[i]
            node = <ReplicaNode*>map_find(&self.map, wanted.topic_id, wanted.partition)
            if node != NULL:
                node.named.watch.is_ready = False
        self.sweep()
        for i in range(request.wanted, request.wanted + request.forgotten):
            wanted = &request.named[i]
            node = <ReplicaNode*>map_find(&self.map, wanted.topic_id, wanted.partition)
            if node != NULL:
                self.drop(node)

    cdef void resolve(self, ReplicaNode* node, TopicEntry entry):
        # Looks up the log that is led here now; `entry` is the topic, None: it is unknown.
        cdef PartitionLog log = None
        node.refusal = ERROR_UNKNOWN_TOPIC_ID
        if entry is not None:
            log = entry.log_of(node.named.partition)
            node.refusal = (
                ERROR_NOT_LEADER_OR_FOLLOWER if 0 <= node.named.partition < len(entry.logs)
                else ERROR_UNKNOWN_TOPIC_OR_PARTITION)
        if log is not None:
            node.refusal = 0
        if node.log == (NULL if log is None else <PyObject*>log):
            return
        if node.log != NULL:
            (<PartitionLog>node.log).unwatch(&node.named.watch)
            Py_DECREF(<object>node.log)
            node.log = NULL
        if log is not None:
            node.log = <PyObject*>log
            Py_INCREF(log)
            log.watch_as_replica(&node.named.watch)

    cdef void examine(self, ReplicaNode* node, TopicEntry entry):
        # Compares a partition's position with its log and, if they agree, notes it in the log.
        cdef PartitionLog log
        cdef LogStatus status
        self.resolve(node, entry)
        node.is_diverging = node.is_divergence_sent = False
        if self.error_of(node) not in (0, ERROR_OFFSET_OUT_OF_RANGE):
            return
        log = <PartitionLog>node.log
        if node.last_epoch > log.leader_epoch:
            node.refusal = ERROR_OFFSET_OUT_OF_RANGE    # it has no epoch in common with this log
            return
        node.is_diverging = log.diverges(
            node.last_epoch, node.offset, node.log_start, &node.common_epoch, &node.common_end)
        if node.is_diverging:
            return
        if log.cannot_compare(self.replica_id, node.last_epoch, node.offset, node.log_start):
            node.refusal = ERROR_OFFSET_OUT_OF_RANGE    # it begins anew where this log does
            return
        if self.error_of(node) != 0:
            return
        status = log.note_position(
            self.replica_id, self.replica_epoch, node.offset, node.log_start)
        if status == LOG_OK:
            node.term = log.terms
        elif status == LOG_NOT_REPLICA:
            node.refusal = ERROR_UNKNOWN_LEADER_EPOCH    # it may know of the replica later
        elif status == LOG_OUT_OF_RANGE:
            node.refusal = ERROR_OFFSET_OUT_OF_RANGE
        elif status == LOG_OFFLINE:
            node.refusal = ERROR_KAFKA_STORAGE_ERROR
        else:
            node.refusal = ERROR_NOT_LEADER_OR_FOLLOWER

    cdef bint is_forgotten(self, ReplicaNode* node) noexcept:
        """Return whether the log has forgotten the position that the replica has named last."""
        return node.log != NULL and node.term != (<PartitionLog>node.log).terms and (
            not node.is_diverging and self.error_of(node) == 0)

    cdef int16_t error_of(self, ReplicaNode* node) noexcept:
        """Return the error of a partition at this moment, or 0."""
        cdef PartitionLog log
        if node.log == NULL:
            return node.refusal
        log = <PartitionLog>node.log
        if log.is_released or log.is_follower:
            return ERROR_NOT_LEADER_OR_FOLLOWER
        if log.is_deleted:
            return ERROR_UNKNOWN_TOPIC_ID
        if log.is_loading:
            return ERROR_NOT_LEADER_OR_FOLLOWER
        if log.is_offline:
            return ERROR_KAFKA_STORAGE_ERROR
        if node.leader_epoch >= 0 and node.leader_epoch < log.leader_epoch:
            return ERROR_FENCED_LEADER_EPOCH
        if node.leader_epoch > log.leader_epoch:
            return ERROR_UNKNOWN_LEADER_EPOCH
        if not node.is_diverging and (
                node.offset > log.log_end_offset
                or (node.offset < log.log_start_offset and node.offset < log.replica_start())):
            return ERROR_OFFSET_OUT_OF_RANGE
        return node.refusal

    # ---- whether to answer --------------------------------------------------------------------

    cdef void park(self, Connection connection):
        ParkedFetch.park(self, connection)
        if self.has_news:
            connection.hasten_timer(NEWS_DELAY_MS)

    cdef void woken(self):
        cdef bint had_news = self.has_news
        if self.has_enough():
            self.answer()
        elif self.has_news and not had_news:
            self.connection.hasten_timer(NEWS_DELAY_MS)

    cdef bint has_enough(self) noexcept:
        cdef Watch* watch = self.owner.ready_head
        cdef ReplicaNode* node
        cdef int64_t total = 0
        self.has_news = False
        if self.error != 0 or self.wait_ms <= 0 or self.bytes_min <= 0 or (
                self.is_full and self.session_id != 0):
            return True
        while watch != NULL:
            node = <ReplicaNode*>watch
            watch = watch.ready_next
            if self.error_of(node) != node.sent_error or (
                    node.is_diverging and not node.is_divergence_sent):
                return True
            if self.has_deleted(node):
                return True
            if self.has_records(node):
                # (At the end of a segment there may be less.)
                total += 1 if self.bytes_min == 1 else min(
                    <int64_t>node.bytes_max,
                    (<PartitionLog>node.log).bytes_for_replica(node.offset))
            if total >= self.bytes_min:
                return True
            self.has_news = self.has_news or self.has_changes(node)
        return False

    cdef bint has_records(self, ReplicaNode* node) noexcept:
        return self.has_unsent(node) and not (<PartitionLog>node.log).holds_back(self.replica_id)

    cdef bint has_unsent(self, ReplicaNode* node) noexcept:
        return node.log != NULL and not (node.is_diverging or node.is_sent or node.sent_error) and (
            node.offset < (<PartitionLog>node.log).written_end())

    cdef bint has_deleted(self, ReplicaNode* node) noexcept:
        # Whether the log start has moved since the replica was told it.
        return node.log != NULL and node.sent_log_start >= 0 and not (
            node.is_diverging or node.sent_error) and (
            (<PartitionLog>node.log).log_start_offset > node.sent_log_start)

    cdef bint has_changes(self, ReplicaNode* node) noexcept:
        cdef PartitionLog log
        cdef int16_t error = self.error_of(node)
        if error != 0 or error != node.sent_error:
            return error != node.sent_error
        if node.is_diverging:
            return not node.is_divergence_sent
        log = <PartitionLog>node.log
        return (self.has_records(node) or log.high_watermark != node.sent_high_watermark
                or log.log_start_offset != node.sent_log_start)

    # ---- the reply ----------------------------------------------------------------------------

    cdef void reply(self, OutputQueue* queue) noexcept:
        cdef uint8_t* start = queue_reserve(queue, HEAD_SIZE)
        cdef uint8_t* at
        cdef int64_t queued_before = queue.bytes
        cdef int32_t topics
        if start == NULL:
            return
        store_uint32(start + 4, self.correlation_id)
        at = put_tags(start + 8, True)
        store_uint32(at, 0)                                # throttle time
        store_uint16(at + 4, self.error)
        store_uint32(at + 6, self.session_id if self.error == 0 else 0)
        at += 10
        queue_commit(queue, HEAD_SIZE)
        meter_error(self.meter, self.error)
        topics = 0 if self.error != 0 else self.put_topics(queue)
        put_padded(at, <uint32_t>topics + 1)
        queue_tags(queue)
        store_uint32(start, <uint32_t>(queue.bytes - queued_before - 4))

    cdef int32_t put_topics(self, OutputQueue* queue) noexcept:
        # Adjacent partitions of one topic share an entry of the response.
        cdef Watch* watch = self.owner.ready_head
        cdef ReplicaNode* node
        cdef ReplicaNode* before = NULL
        cdef uint8_t* at = NULL
        cdef int32_t topics = 0
        cdef uint32_t parts = 0
        cdef int64_t left = self.bytes_max
        cdef bint is_first = True
        self.owner.ready_head = self.owner.ready_tail = NULL
        while watch != NULL:
            node = <ReplicaNode*>watch
            watch = watch.ready_next
            node.named.watch.is_ready = False
            if self.is_full or self.has_changes(node):
                if before == NULL or memcmp(
                        node.named.topic_id, before.named.topic_id, TOPIC_ID_SIZE) != 0:
                    if before != NULL:
                        put_padded(at, parts + 1)
                        queue_tags(queue)
                    at = queue_reserve(queue, TOPIC_HEAD_SIZE)
                    if at == NULL:
                        return topics
                    memcpy(at, node.named.topic_id, TOPIC_ID_SIZE)
                    at += TOPIC_ID_SIZE
                    queue_commit(queue, TOPIC_HEAD_SIZE)
                    topics += 1
                    parts = 0
                    before = node
                self.put_partition(queue, node, &left, &is_first)
                parts += 1
            # What is left to send, or may be led here by the next request.
            if node.sent_error != 0 or self.has_unsent(node) or self.is_forgotten(node):
                ready_add(&node.named.watch)
        if before != NULL:
            put_padded(at, parts + 1)
            queue_tags(queue)
        return topics

    cdef int16_t find(self, ReplicaNode* node, int64_t size_max, bint at_least_one,
                      LogSlice* found, PyObject** file) noexcept:
        # Finds what a replica gets of a partition now; returns an error code, or 0.
        cdef int16_t error = self.error_of(node)
        cdef LogStatus status
        found.size = 0
        if error != 0 or node.is_diverging or node.is_sent or not (size_max > 0 or at_least_one):
            return error
        if (<PartitionLog>node.log).holds_back(self.replica_id):
            return 0
        status = (<PartitionLog>node.log).slice_for_replica(
            node.offset, max(size_max, <int64_t>0), at_least_one, found, file)
        if status == LOG_OK:
            return 0
        if status == LOG_OUT_OF_RANGE:
            return ERROR_OFFSET_OUT_OF_RANGE
        return ERROR_KAFKA_STORAGE_ERROR if status == LOG_OFFLINE else ERROR_NOT_LEADER_OR_FOLLOWER

    cdef void put_partition(self, OutputQueue* queue, ReplicaNode* node, int64_t* left,
                            bint* is_first) noexcept:
        cdef LogSlice found
        cdef PyObject* file = NULL
        cdef int64_t size_max = min(<int64_t>node.bytes_max, left[0])
        if node.log != NULL and (<PartitionLog>node.log).is_throttling(self.replica_id):
            size_max = self.turn.leader_throttle.share(size_max)
        cdef int16_t error = self.find(node, size_max, is_first[0], &found, &file)
        cdef size_t copied = <size_t>found.size if found.size <= COPIED_MAX else 0
        cdef uint8_t* at = queue_reserve(queue, PART_HEAD_SIZE_MAX + DIVERGING_SIZE + copied)
        if at == NULL:
            if found.size > 0:
                Py_DECREF(<object>file)
            return
        meter_error(self.meter, error)
        queue_commit(queue, self.put_head_of(node, at, error, found.size) - at)
        if found.size > 0:
            is_first[0] = False
            node.is_sent = True
            left[0] -= found.size
            if (<PartitionLog>node.log).throttles_followers:
                self.turn.leader_throttle.spend(found.size)
            put_records(queue, file, &found)
        if error != 0 or not node.is_diverging:
            queue_tags(queue)
            return
        node.is_divergence_sent = True
        at = queue_reserve(queue, DIVERGING_SIZE)
        if at != NULL:
            queue_commit(
                queue, put_diverging(at, node.common_epoch, node.common_end) - at)

    cdef uint8_t* put_head_of(self, ReplicaNode* node, uint8_t* at, int16_t error,
                              int64_t records) noexcept:
        cdef PartitionLog log
        cdef PartitionHead head
        head.version = self.version
        head.partition = node.named.partition
        head.error = node.sent_error = error
        head.records = records
        head.aborted = NULL
        head.preferred_replica = -1
        head.high_watermark = head.last_stable_offset = head.log_start_offset = -1
        # (A replica that ends before this log begins has to know where to begin anew.)
        if error == 0 or error == ERROR_OFFSET_OUT_OF_RANGE:
            log = <PartitionLog>node.log
            head.high_watermark = log.high_watermark
            head.last_stable_offset = min(log.high_watermark, log.transactions.first_undecided)
            head.log_start_offset = (
                log.replica_start() if error == ERROR_OFFSET_OUT_OF_RANGE else log.log_start_offset)
        node.sent_high_watermark = head.high_watermark
        node.sent_log_start = head.log_start_offset
        return put_head(at, &head, True)


@cython.final
cdef class ReplicaSessions:
    """The sessions of all replicas: one of each."""

    def __cinit__(self, int32_t sessions_max=limits.REPLICA_SESSIONS_MAX,
                  int64_t partitions_max=limits.REPLICA_PARTITIONS_HELD_MAX,
                  int32_t bytes_max=limits.FETCH_BYTES_MAX):
        self.by_id = {}
        self.sessions_max = sessions_max
        self.partitions_max = partitions_max
        self.bytes_max = bytes_max
        self.wait_ms_max = limits.FETCH_WAIT_MS_MAX
        # Random: a replica may still have a session id from before a restart.
        self.next_id = 1 + int.from_bytes(os.urandom(4), "big") % 0x7FFFFFFF
        self.hash_key = int.from_bytes(os.urandom(8), "big")

    def __len__(self):
        return len(self.by_id)

    cdef ParkedFetch begin(self, Connection connection, RequestHead* head, FetchRequest* request,
                           FetchStatus* status):
        """Return the session that will answer a request, or None if Python serves it."""
        cdef TopicTable topics = connection.poller.topics
        cdef ReplicaSession session
        cdef object known
        if topics.brokers is None:
            status[0] = FETCH_NOT_SERVED    # a standalone broker has no replicas
            return None
        known = topics.brokers.get(request.replica_id)
        if known is None or request.replica_epoch != <int64_t>known:
            session = ReplicaSession(self, connection)
            session.error = ERROR_STALE_BROKER_EPOCH
        else:
            session = self.session_for(connection, request)
        session.begin_request(head)
        session.wait_ms = min(request.wait_ms, self.wait_ms_max)
        session.bytes_min = request.bytes_min
        session.bytes_max = min(request.bytes_max, self.bytes_max)
        if session.error == 0:
            connection.poller.work += request.wanted
            session.apply(request)
        # Above the limit of held partitions, a request without a session is answered at once.
        if session.has_enough() or (
                session.session_id == 0 and self.partitions > self.partitions_max):
            status[0] = FETCH_READY
        else:
            status[0] = FETCH_PARKED
        return session

    cdef ReplicaSession session_for(self, Connection connection, FetchRequest* request):
        cdef ReplicaSession session = None
        cdef int16_t error = 0
        if request.session_id != 0:
            session = <ReplicaSession>self.by_id.get(request.session_id)
        if request.epoch != 0 and request.epoch != -1:
            error = self.refusal_of(connection, request, session)
            if error == 0:
                session.is_full = False
                session.epoch = session.epoch + 1 if session.epoch < 0x7FFFFFFF else 1
                return session
        elif session is not None and session.replica_id == request.replica_id:
            self.end(session)
        session = ReplicaSession(self, connection)
        session.error = error
        session.is_full = True
        session.replica_id = request.replica_id
        session.replica_epoch = request.replica_epoch
        if error == 0 and request.epoch == 0 and self.can_register(connection, request):
            self.register(session)
        return session

    cdef int16_t refusal_of(self, Connection connection, FetchRequest* request,
                            ReplicaSession session):
        if (session is None or session.owner.is_parked or session.origin is not connection
                or session.replica_id != request.replica_id
                or session.replica_epoch != request.replica_epoch):
            return ERROR_FETCH_SESSION_ID_NOT_FOUND
        if session.epoch != request.epoch:
            return ERROR_INVALID_FETCH_SESSION_EPOCH
        if request.wanted > 0 and self.partitions > self.partitions_max:
            self.end(session)
            return ERROR_FETCH_SESSION_ID_NOT_FOUND
        return 0

    cdef bint can_register(self, Connection connection, FetchRequest* request):
        # The earlier sessions of its connection, those of connections that have been closed, and
        # those of the same replica have ended: what the network still brings of those would name
        # positions that are not true any more, and those are only named again when they change. (If
        # this request is such a late one, the replica begins another session, with all positions.)
        # Without room the replica fetches without a session.
        cdef ReplicaSession other
        for other in list(self.by_id.values()):
            if (other.origin is connection or other.origin.is_closed
                    or other.replica_id == request.replica_id):
                self.end(other)
        return len(self.by_id) < self.sessions_max and self.partitions <= self.partitions_max

    cdef void register(self, ReplicaSession session):
        while self.next_id in self.by_id:
            self.next_id = self.next_id + 1 if self.next_id < 0x7FFFFFFF else 1
        session.session_id = self.next_id
        session.epoch = 1
        self.next_id = self.next_id + 1 if self.next_id < 0x7FFFFFFF else 1
        self.by_id[session.session_id] = session

    cdef void end(self, ReplicaSession session):
        self.by_id.pop(session.session_id, None)
        session.clear()
