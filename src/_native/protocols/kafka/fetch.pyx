"""Fetch, versions 4-18, with the incremental sessions of KIP-227, for known partitions.

A fetch has a node per partition. Without a session nodes live for one request. In a session they
stay, linked to their logs, and a log that changes puts its node on the session's ready list. So an
incremental fetch costs O(partitions named in the request + partitions that changed), and a parked
one costs nothing until a log wakes it.

What a request does to a session:

    session id 0, epoch -1   no session
    any id,       epoch 0    a full fetch that asks for a new session (the old one ends)
    id,           epoch n    incremental: n must be the expected epoch; names changed partitions
    id,           epoch -1   a full fetch that ends the session

The Python handler (broker/protocols/kafka/handlers/fetch.py) is the specification of what a fetch
without a session gets; partitions are checked here in the same order. Consumers may read the logs
that this broker follows, too, up to the high watermark that it knows (KIP-392). Beyond the end of
such a log there may be more: a request waits for it, and gets OFFSET_NOT_AVAILABLE after its time,
while an offset that the leader would not have is one of a client that knows an older epoch. A
consumer that tells its rack is sent to a replica in it. A request that names a topic
or partition that is not known here, or an epoch of truncated data, is left to it.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy
from posix.time cimport CLOCK_MONOTONIC

from broker._native.kernel.big_endian cimport store_uint16, store_uint32
from broker._native.kernel.clock cimport clock_ms, monotonic_ns
from broker._native.log.open_files cimport OpenFile
from broker._native.log.header_window cimport uses_codec
from broker._native.log.permissions cimport MAY_READ
from broker._native.log.transaction_index cimport aborted_list_free
from broker._native.log.topic_table cimport TopicTable
from broker._native.log.turn cimport (
    LOG_LOADING, LOG_NOT_LED, LOG_OK, LOG_OUT_OF_RANGE, LogStatus, ready_add, ready_remove,
)
from broker._native.messages.error_codes cimport (
    ERROR_FENCED_LEADER_EPOCH,
    ERROR_FETCH_SESSION_ID_NOT_FOUND,
    ERROR_FETCH_SESSION_TOPIC_ID_ERROR,
    ERROR_INVALID_FETCH_SESSION_EPOCH,
    ERROR_KAFKA_STORAGE_ERROR,
    ERROR_NOT_LEADER_OR_FOLLOWER,
    ERROR_OFFSET_NOT_AVAILABLE,
    ERROR_OFFSET_OUT_OF_RANGE,
    ERROR_UNKNOWN_LEADER_EPOCH,
    ERROR_UNKNOWN_TOPIC_ID,
    ERROR_UNKNOWN_TOPIC_OR_PARTITION,
    ERROR_UNSUPPORTED_COMPRESSION_TYPE,
)
from broker._native.messages.fields cimport TOPIC_ID_SIZE, put_compact, put_tags
from broker._native.protocols.kafka.fetch_reply cimport (
    ABORTED_SIZE,
    COPIED_MAX,
    PART_HEAD_SIZE_MAX,
    PartitionHead,
    put_head,
    put_padded,
    put_records,
    queue_tags,
)
from broker._native.protocols.kafka.fetch_request cimport (
    VERSION_FOLLOWERS, VERSION_SESSION, VERSION_TOPIC_ID, read_request,
)
from broker._native.protocols.kafka.parked_fetch cimport FETCH_NOT_SERVED, FETCH_PARKED, FETCH_READY
from broker._native.wire.output_queue cimport queue_commit, queue_reserve
from broker._native.wire.quota cimport NS_PER_MS, percents
from broker._native.wire.request_meter cimport meter_error

import os

from broker.model import limits

_EVICTIONS_MAX = limits.FETCH_SESSIONS_EVICTED_MAX
_PARTITIONS_MAX = limits.FETCH_PARTITIONS_HELD_MAX

cdef enum:
    VERSION_MIN = 4
    VERSION_ZSTD = 10
    VERSION_LEADERS = 16      # with NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH (KIP-951)
    CODEC_ZSTD = 4
    HEAD_SIZE_MAX = 4 + 4 + 1 + 4 + 2 + 4 + 5


# ---- sessions ------------------------------------------------------------------------------------


@cython.no_gc_clear    # `sessions` would be cleared before the partitions are dropped
@cython.final
cdef class FetchSession(ParkedFetch):
    """The partitions that one consumer fetches, and its current request."""

    def __cinit__(self, FetchSessions sessions, Turn turn):
        self.sessions = sessions
        self.turn = turn

    def __dealloc__(self):
        self.clear()

    cdef void clear(self) noexcept:
        self.unmark_all()    # removing each one would be a walk
        while self.first != NULL:
            self.drop(self.first)
        free(self.slots)
        self.slots = NULL
        self.slot_count = 0

    cdef uint32_t slot_of(self, void* log) noexcept:
        return <uint32_t>((<uint64_t>log * <uint64_t>0x9E3779B97F4A7C15) >> 32) % self.slot_count

    cdef FetchNode* node_of(self, void* log) noexcept:
        cdef FetchNode* node
        if self.slots == NULL:
            return NULL
        node = self.slots[self.slot_of(log)]
        while node != NULL and node.log != <PyObject*>log:
            node = node.next_in_slot
        return node

    cdef FetchNode* add(self, PyObject* topic, PyObject* log) noexcept:
        """Append a node; return NULL without memory."""
        cdef FetchNode* node = <FetchNode*>calloc(1, sizeof(FetchNode))
        cdef uint32_t slot
        if node == NULL:
            return NULL
        node.watch.owner = &self.owner
        node.topic = topic
        node.log = log
        Py_INCREF(<object>topic)
        Py_INCREF(<object>log)
        node.sent_high_watermark = node.sent_log_start = -1
        node.previous = self.last
        if self.last == NULL:
            self.first = node
        else:
            self.last.next = node
        self.last = node
        self.count += 1
        self.sessions.partitions += 1
        if self.peers is not None:
            self.peers.partitions += 1
        if self.slots != NULL:
            slot = self.slot_of(log)
            node.next_in_slot = self.slots[slot]
            self.slots[slot] = node
        return node

    cdef void drop(self, FetchNode* node) noexcept:
        """Remove a partition."""
        cdef FetchNode** link
        (<PartitionLog>node.log).unwatch(&node.watch)
        if self.slots != NULL:
            link = &self.slots[self.slot_of(node.log)]
            while link[0] != node:
                link = &link[0].next_in_slot
            link[0] = node.next_in_slot
        if node.previous == NULL:
            self.first = node.next
        else:
            node.previous.next = node.next
        if node.next == NULL:
            self.last = node.previous
        else:
            node.next.previous = node.previous
        self.count -= 1
        self.sessions.partitions -= 1
        if self.peers is not None:
            self.peers.partitions -= 1
        ready_remove(&node.watch)
        Py_DECREF(<object>node.topic)
        Py_DECREF(<object>node.log)
        free(node)

    cdef void apply(self, FetchRequest* request) noexcept:
        # Applies the partitions that the request names.
        cdef FetchNode* node
        cdef int32_t i
        for i in range(request.wanted):
            node = self.node_of(request.named[i].log)
            if node == NULL:
                node = self.add(request.named[i].topic, request.named[i].log)
                if node == NULL:
                    return
                node.partition = request.named[i].partition
                if self.session_id != 0:
                    (<PartitionLog>node.log).watch(&node.watch)
            node.offset = request.named[i].offset
            node.leader_epoch = request.named[i].leader_epoch
            node.bytes_max = request.named[i].bytes_max
            node.is_led = not (<PartitionLog>node.log).is_follower
            ready_add(&node.watch)
        if request.forgotten == 0:
            return
        for i in range(request.wanted, request.wanted + request.forgotten):
            node = self.node_of(request.named[i].log)
            if node != NULL:
                node.watch.is_ready = False
        self.sweep()
        for i in range(request.wanted, request.wanted + request.forgotten):
            node = self.node_of(request.named[i].log)
            if node != NULL:
                self.drop(node)

    cdef void park(self, Connection connection):
        cdef FetchNode* node = self.first
        ParkedFetch.park(self, connection)
        while node != NULL:
            (<PartitionLog>node.log).watch(&node.watch)
            node = node.next if self.session_id == 0 else NULL

    cdef bint has_enough(self) noexcept:
        cdef Watch* watch = self.owner.ready_head
        cdef FetchNode* node
        cdef PartitionLog log
        cdef int64_t total = 0, available
        cdef int16_t error
        if self.error != 0 or self.count == 0 or self.wait_ms <= 0 or self.bytes_min <= 0:
            return True
        while watch != NULL:
            node = <FetchNode*>watch
            error = node_error(self, node)
            if (error != 0 and error != ERROR_OFFSET_NOT_AVAILABLE) or (
                    self.rack is not None and self.preferred_replica(node) >= 0):
                return True
            log = <PartitionLog>node.log
            available = log.visible_bytes(node.offset, self.end_for(log))
            total += available if available < node.bytes_max else node.bytes_max
            if total >= self.bytes_min:
                return True
            watch = watch.ready_next
        return False

    # ---- the reply ----------------------------------------------------------------------------

    cdef void reply(self, OutputQueue* queue) noexcept:
        cdef uint8_t* start = queue_reserve(queue, HEAD_SIZE_MAX)
        cdef uint8_t* count_at
        cdef uint8_t* at
        cdef int64_t queued_before = queue.bytes, begun_ns = 0
        cdef int32_t topics
        cdef bint begins_again
        if start == NULL:
            return
        if self.quota is not None:
            begun_ns = monotonic_ns()
            self.throttle_ms = self.throttle()
        # One that is throttled gets nothing. If it asked for a session, it has to ask again.
        begins_again = self.throttle_ms > 0 and self.is_full
        at = start + 8
        store_uint32(start + 4, self.correlation_id)
        at = put_tags(at, self.is_flexible)
        store_uint32(at, <uint32_t>self.throttle_ms)
        at += 4
        if self.version >= VERSION_SESSION:
            store_uint16(at, self.error)
            store_uint32(at + 2, 0 if self.error != 0 or begins_again else self.session_id)
            at += 6
        count_at = at
        at += 5 if self.is_flexible else 4
        queue_commit(queue, at - start)
        meter_error(self.meter, self.error)
        topics = 0 if self.error != 0 or self.throttle_ms > 0 else self.put_topics(queue)
        if self.is_flexible:
            put_padded(count_at, <uint32_t>topics + 1)
            queue_tags(queue)
        else:
            store_uint32(count_at, topics)
        store_uint32(start, <uint32_t>(queue.bytes - queued_before - 4))
        if self.quota is not None:
            charge_fetch(
                self.quota, 0 if self.throttle_ms > 0 else queue.bytes - queued_before, begun_ns)
        if self.is_outdated or begins_again:
            self.sessions.end(self)

    cdef int64_t throttle(self) noexcept:
        # Returns for how long the consumer has to rest before it may be sent what it asks for.
        cdef int64_t now_ms = clock_ms(CLOCK_MONOTONIC), rest_ms = 0
        if self.error != 0:
            return 0
        if self.quota.reads is not None:
            rest_ms = self.quota.reads.excess_ms(<double>self.readable_bytes(), now_ms)
        if self.quota.time is not None:
            rest_ms = max(rest_ms, self.quota.time.excess_ms(0, now_ms))
        return rest_ms

    cdef int64_t readable_bytes(self) noexcept:
        # About how many bytes of records the reply would have.
        cdef Watch* watch = self.owner.ready_head
        cdef FetchNode* node
        cdef PartitionLog log
        cdef int64_t total = 0
        while watch != NULL and total < self.bytes_max:
            node = <FetchNode*>watch
            log = <PartitionLog>node.log
            if node_error(self, node) == 0 and self.preferred_replica(node) < 0:
                total += min(
                    log.visible_bytes(node.offset, self.end_for(log)), <int64_t>node.bytes_max)
            watch = watch.ready_next
        return min(total, <int64_t>self.bytes_max)

    cdef int32_t put_topics(self, OutputQueue* queue) noexcept:
        # Adjacent partitions of one topic share an entry of the response.
        cdef Watch* watch = self.owner.ready_head
        cdef FetchNode* node
        cdef PyObject* topic = NULL
        cdef uint8_t* count_at = NULL
        cdef int32_t topics = 0
        cdef uint32_t parts = 0
        cdef int64_t left = self.bytes_max
        cdef bint is_first = True
        cdef PartitionLog log
        self.owner.ready_head = self.owner.ready_tail = NULL
        while watch != NULL:
            node = <FetchNode*>watch
            watch = watch.ready_next
            node.watch.is_ready = False
            if self.is_full or self.has_changes(node):
                if node.topic != topic:
                    self.end_topic(queue, count_at, parts)
                    topic = node.topic
                    count_at = self.put_topic(queue, <TopicEntry>topic)
                    if count_at == NULL:
                        return topics
                    topics += 1
                    parts = 0
                self.put_partition(queue, node, &left, &is_first)
                parts += 1
                log = <PartitionLog>node.log
                # A topic of the same name may have been created, or this broker may lead the
                # partition again, with another log: the client must begin a new session for it.
                self.is_outdated = self.is_outdated or log.is_deleted or (
                    log.is_follower and is_for_leader(self, node))
                # A partition with unread records or an error is reported again even if its log does
                # not change.
                if self.session_id != 0 and (
                        node.offset < self.end_for(log) or node_error(self, node) != 0):
                    ready_add(&node.watch)
        self.end_topic(queue, count_at, parts)
        return topics

    cdef void set_rack(self, TopicTable topics, FetchRequest* request):
        # A copy is made only if it matters, and once in a session: a consumer stays in its rack.
        self.racks = topics.racks
        if not self.racks or request.rack == NULL or request.rack_size == 0:
            self.rack = None
        elif (self.rack is None or PyBytes_GET_SIZE(self.rack) != request.rack_size
                or memcmp(PyBytes_AS_STRING(self.rack), request.rack, request.rack_size) != 0):
            self.rack = PyBytes_FromStringAndSize(<const char*>request.rack, request.rack_size)

    cdef int32_t preferred_replica(self, FetchNode* node) noexcept:
        """Return the broker in the consumer's rack that it should ask instead, or -1 (KIP-392)."""
        cdef PartitionLog log = <PartitionLog>node.log
        if self.rack is None or not log.is_replicated:
            return -1
        return log.replica_in_rack(self.rack, self.racks, node.offset)

    cdef int64_t end_for(self, PartitionLog log) noexcept:
        # With read_committed a fetch stops at the last stable offset.
        if not self.is_committed or log.transactions.first_undecided > log.high_watermark:
            return log.high_watermark
        return log.transactions.first_undecided

    cdef bint has_changes(self, FetchNode* node) noexcept:
        cdef PartitionLog log = <PartitionLog>node.log
        return (node.offset < self.end_for(log)
                or log.high_watermark != node.sent_high_watermark
                or log.log_start_offset != node.sent_log_start
                or node_error(self, node) != 0 or self.preferred_replica(node) >= 0)

    cdef uint8_t* put_topic(self, OutputQueue* queue, TopicEntry topic) noexcept:
        # Returns where the count of its partitions is written; NULL without memory.
        cdef const uint8_t* name
        cdef Py_ssize_t size
        cdef uint8_t* start
        cdef uint8_t* at
        if self.version >= VERSION_TOPIC_ID:
            name = <const uint8_t*><const char*>topic.topic_id
            size = TOPIC_ID_SIZE
        else:
            name = <const uint8_t*><const char*>topic.name_bytes
            size = len(topic.name_bytes)
        start = at = queue_reserve(queue, <size_t>size + 10)
        if start == NULL:
            return NULL
        if self.version < VERSION_TOPIC_ID:
            if self.is_flexible:
                at = put_compact(at, <uint32_t>size + 1)
            else:
                store_uint16(at, <uint32_t>size)
                at += 2
        memcpy(at, name, size)
        at += size
        queue_commit(queue, at - start + (5 if self.is_flexible else 4))
        return at

    cdef void end_topic(self, OutputQueue* queue, uint8_t* count_at, uint32_t parts) noexcept:
        if count_at == NULL:
            return
        if not self.is_flexible:
            store_uint32(count_at, parts)
            return
        put_padded(count_at, parts + 1)
        queue_tags(queue)

    cdef int16_t find(self, FetchNode* node, int64_t size_max, bint at_least_one, LogSlice* found,
                      PyObject** file, AbortedList* aborted) noexcept:
        # Finds what a reader of a partition gets now; returns an error code, or 0.
        cdef PartitionLog log = <PartitionLog>node.log
        cdef int16_t error = node_error(self, node)
        found.size = 0
        if error == 0 and (size_max > 0 or at_least_one):
            error = error_of(self, log.slice(
                node.offset, self.end_for(log), size_max if size_max > 0 else 0, at_least_one,
                found, file))
        if found.size == 0:
            return error
        if self.version < VERSION_ZSTD and uses_codec(
                (<OpenFile>file[0]).fd, found.position, found.position + found.size, CODEC_ZSTD):
            error = ERROR_UNSUPPORTED_COMPRESSION_TYPE
        elif self.is_committed and log.find_aborted(node.offset, found.next_offset, aborted) < 0:
            error = ERROR_KAFKA_STORAGE_ERROR  # the list is needed to filter the records
        if error != 0:
            Py_DECREF(<object>file[0])
            file[0] = NULL
            found.size = 0
        return error

    cdef void put_partition(self, OutputQueue* queue, FetchNode* node, int64_t* left,
                            bint* is_first) noexcept:
        cdef LogSlice found
        cdef PyObject* file = NULL
        cdef AbortedList aborted = [NULL, 0, 0]
        cdef int32_t preferred = self.preferred_replica(node)
        cdef int64_t size_max = 0 if preferred >= 0 else min(<int64_t>node.bytes_max, left[0])
        cdef int16_t error = self.find(
            node, size_max, is_first[0] and preferred < 0, &found, &file, &aborted)
        cdef size_t copied = <size_t>found.size if found.size <= COPIED_MAX else 0
        cdef uint8_t* at = queue_reserve(
            queue, PART_HEAD_SIZE_MAX + aborted.count * ABORTED_SIZE + copied)
        if at == NULL:
            aborted_list_free(&aborted)
            Py_XDECREF(file)
            return
        if error != 0:
            meter_error(self.meter, error)
            (<PartitionLog>node.log).failed_reads += 1
        queue_commit(
            queue, self.put_head_of(node, at, error, &aborted, found.size, preferred) - at)
        aborted_list_free(&aborted)
        if found.size > 0:
            is_first[0] = False
            left[0] -= found.size
            put_records(queue, file, &found)
        if self.is_flexible:
            queue_tags(queue)

    cdef uint8_t* put_head_of(self, FetchNode* node, uint8_t* at, int16_t error,
                              AbortedList* aborted, int64_t records,
                              int32_t preferred) noexcept:
        cdef PartitionLog log = <PartitionLog>node.log
        cdef PartitionHead head
        node.sent_high_watermark = log.high_watermark
        node.sent_log_start = log.log_start_offset
        head.version = self.version
        head.partition = node.partition
        head.error = error
        head.records = records
        head.preferred_replica = preferred if error == 0 else -1
        head.aborted = NULL
        head.high_watermark = head.last_stable_offset = head.log_start_offset = -1
        if error == 0:
            head.high_watermark = log.high_watermark
            head.last_stable_offset = min(log.high_watermark, log.transactions.first_undecided)
            head.log_start_offset = log.log_start_offset
            if self.is_committed:
                head.aborted = aborted
        return put_head(at, &head, self.is_flexible)


cdef void charge_fetch(ClientQuota quota, int64_t size, int64_t begun_ns) noexcept:
    """Count a response of so many bytes; 0 of one that has nothing because of a quota."""
    cdef int64_t now_ns = monotonic_ns()
    if quota.reads is not None and size > 0:
        quota.reads.add(<double>size, now_ns // NS_PER_MS)
    if quota.time is not None:
        quota.time.add(percents(now_ns - begun_ns), now_ns // NS_PER_MS)


cdef bint is_misdirected(FetchRequest* request) noexcept:
    """Return whether a request names a partition whose client has to look for its leader."""
    cdef PartitionLog log
    cdef int32_t i
    for i in range(request.wanted):
        log = <PartitionLog>request.named[i].log
        if log.is_loading or log.is_released or (
                0 <= request.named[i].leader_epoch < epoch_of(log)):
            return True
    return False


cdef int32_t epoch_of(PartitionLog log) noexcept:
    """Return the leader epoch; a follower may have no records of it yet."""
    return log.known_epoch if log.is_follower else log.leader_epoch


cdef bint is_for_leader(FetchSession session, FetchNode* node) noexcept:
    """Return whether a consumer asks the leader: it may not know yet that this is a follower."""
    return session.version < VERSION_FOLLOWERS or node.is_led


cdef int16_t node_error(FetchSession session, FetchNode* node) noexcept:
    cdef PartitionLog log = <PartitionLog>node.log
    if log.is_released or (log.is_follower and is_for_leader(session, node)):
        return ERROR_NOT_LEADER_OR_FOLLOWER
    if log.is_deleted:
        return ERROR_UNKNOWN_TOPIC_ID if session.version >= VERSION_TOPIC_ID else (
            ERROR_UNKNOWN_TOPIC_OR_PARTITION)
    if log.is_loading:
        return ERROR_NOT_LEADER_OR_FOLLOWER
    if log.is_offline:
        return ERROR_KAFKA_STORAGE_ERROR
    if node.leader_epoch >= 0 and node.leader_epoch < epoch_of(log):
        return ERROR_FENCED_LEADER_EPOCH
    if node.leader_epoch > epoch_of(log):
        return ERROR_UNKNOWN_LEADER_EPOCH
    if node.offset < log.log_start_offset:
        return ERROR_OFFSET_OUT_OF_RANGE
    if node.offset > log.log_end_offset:
        # The leader may have it: a follower waits for it, for as long as the request does.
        return ERROR_OFFSET_NOT_AVAILABLE if log.is_follower else ERROR_OFFSET_OUT_OF_RANGE
    return 0


cdef int16_t error_of(FetchSession session, LogStatus status) noexcept:
    if status == LOG_OUT_OF_RANGE:
        return ERROR_OFFSET_OUT_OF_RANGE
    if status == LOG_LOADING or status == LOG_NOT_LED:
        return ERROR_NOT_LEADER_OR_FOLLOWER
    return 0 if status == LOG_OK else ERROR_KAFKA_STORAGE_ERROR


@cython.final
cdef class HostSessions:
    """The sessions that clients of one address have begun, in the order of use."""

    cdef void append(self, FetchSession session) noexcept:
        session.older = self.newest
        session.newer = NULL
        if self.newest == NULL:
            self.oldest = <PyObject*>session
        else:
            (<FetchSession>self.newest).newer = <PyObject*>session
        self.newest = <PyObject*>session
        self.count += 1

    cdef void remove(self, FetchSession session) noexcept:
        if session.older == NULL:
            self.oldest = session.newer
        else:
            (<FetchSession>session.older).newer = session.newer
        if session.newer == NULL:
            self.newest = session.older
        else:
            (<FetchSession>session.newer).older = session.older
        self.count -= 1


@cython.final
cdef class FetchSessions:
    """The broker's fetch sessions, a bounded number (max.incremental.fetch.session.cache.slots)."""

    def __cinit__(self, int32_t sessions_max, int64_t idle_ms_max, int32_t bytes_max,
                  int64_t partitions_max=_PARTITIONS_MAX, ReplicaSessions replicas=None):
        self.replicas = ReplicaSessions() if replicas is None else replicas
        self.by_id = {}
        self.by_host = {}
        self.partitions_max = partitions_max
        self.sessions_max = sessions_max
        self.idle_ms_max = idle_ms_max
        self.bytes_max = bytes_max
        self.wait_ms_max = limits.FETCH_WAIT_MS_MAX
        # Random: a client may still have a session id from before a restart.
        self.next_id = 1 + int.from_bytes(os.urandom(4), "big") % 0x7FFFFFFF

    def __len__(self):
        return len(self.by_id)

    cdef ParkedFetch begin(self, Connection connection, Permissions permissions,
                           ClientQuota quota, RequestHead* head, FetchStatus* status):
        """Read a request; return the session that will answer it, or None if Python serves it."""
        cdef TopicTable topics = connection.poller.topics
        cdef FetchRequest request
        cdef FetchSession session
        status[0] = FETCH_NOT_SERVED
        if head.api_version < VERSION_MIN or not read_request(head, topics, &request):
            return None
        if permissions is not None and not self.are_permitted(permissions, &request):
            return None
        if request.replica_id >= 0:
            return self.replicas.begin(connection, head, &request, status)
        # Python names the leader beside the error. In a session it could only end the session.
        if head.api_version >= VERSION_LEADERS and request.epoch <= 0 and is_misdirected(&request):
            return None
        session = self.session_for(connection, permissions, head, &request)
        session.begin_request(head)
        if permissions is not None:
            session.permitted_epoch = permissions.epoch.number
        session.permissions = permissions
        session.is_committed = request.isolation == 1
        session.set_rack(topics, &request)
        session.wait_ms = min(request.wait_ms, self.wait_ms_max)
        session.bytes_min = request.bytes_min
        session.bytes_max = min(request.bytes_max, self.bytes_max)
        session.quota = quota
        session.throttle_ms = 0
        if quota is not None and quota.reads is not None:
            # More could never be sent, and a wait for more would be in vain.
            session.bytes_max = <int32_t>min(session.bytes_max, quota.reads.burst_now())
            session.bytes_min = min(session.bytes_min, session.bytes_max)
        if session.error == 0:
            session.apply(&request)
        # Above the limit of held partitions, a fetch without a session is answered at once.
        if session.has_enough() or (session.session_id == 0 and self.is_over_limit()):
            status[0] = FETCH_READY
        else:
            status[0] = FETCH_PARKED
        return session

    cdef bint are_permitted(self, Permissions permissions, FetchRequest* request):
        """Return whether all that a request gets is known to be allowed; else Python serves it.

        The partitions of a session are looked at again in another epoch; another client's session
        is unknown to it (`session_for`).
        """
        cdef PyObject* before = NULL
        cdef FetchSession session = None
        cdef FetchNode* node
        cdef int32_t i
        if request.replica_id >= 0:
            return permissions.allows_copies()
        for i in range(request.wanted):
            if request.named[i].topic != before and not permissions.allows(
                    <TopicEntry>request.named[i].topic, MAY_READ):
                return False
            before = request.named[i].topic
        if request.session_id == 0 or request.epoch in (0, -1):
            return True
        session = <FetchSession>self.by_id.get(request.session_id)
        if session is None or session.permissions is not permissions or (
                session.permitted_epoch == permissions.epoch.number):
            return True
        node = session.first
        while node != NULL:
            if not permissions.allows(<TopicEntry>node.topic, MAY_READ):
                return False
            node = node.next
        return True

    cdef FetchSession session_for(self, Connection connection, Permissions permissions,
                                  RequestHead* head, FetchRequest* request):
        cdef Turn turn = connection.poller.turn
        cdef str host = connection.peer_host
        cdef FetchSession session = None
        if request.session_id != 0:
            session = <FetchSession>self.by_id.get(request.session_id)
        # Ids can be guessed: who is not its client could end it, or take its place.
        if session is not None and permissions is not None and (
                session.permissions is not permissions):
            session = None
        if request.epoch != 0 and request.epoch != -1:
            return self.continue_session(turn, head, request, session)
        if session is not None:
            self.end(session)
        session = FetchSession(self, turn)
        session.is_full = True
        if request.epoch == 0 and request.wanted > 0 and self.can_register(
                host, request.wanted, turn.steady_ms):
            self.register(session, host, head, request, turn.steady_ms)
        return session

    cdef FetchSession continue_session(self, Turn turn, RequestHead* head, FetchRequest* request,
                                       FetchSession session):
        cdef int16_t error = 0
        if session is None or session.owner.is_parked:
            error = ERROR_FETCH_SESSION_ID_NOT_FOUND
        elif session.epoch != request.epoch:
            error = ERROR_INVALID_FETCH_SESSION_EPOCH
        elif request.wanted > 0 and self.is_over_limit():
            self.end(session)    # it would grow: its client starts again without a session
            error = ERROR_FETCH_SESSION_ID_NOT_FOUND
        elif session.by_id != (head.api_version >= VERSION_TOPIC_ID):
            error = ERROR_FETCH_SESSION_TOPIC_ID_ERROR
        if error != 0:
            session = FetchSession(self, turn)
            session.error = error
            return session
        session.is_full = False
        session.used_ms = turn.steady_ms
        session.peers.remove(session)
        session.peers.append(session)
        session.epoch = session.epoch + 1 if session.epoch < 0x7FFFFFFF else 1
        return session

    cdef bint is_over_limit(self) noexcept:
        return self.partitions > self.partitions_max

    cdef bint can_register(self, str host, int32_t wanted, int64_t now_ms):
        cdef FetchSession found
        cdef int32_t _i
        for _i in range(_EVICTIONS_MAX):
            if len(self.by_id) < self.sessions_max and not self.is_over_limit():
                return True
            found = self.evictable(host, wanted, now_ms)
            if found is None:
                return False
            self.evict(found)
        return False

    cdef FetchSession evictable(self, str host, int32_t wanted, int64_t now_ms):
        """Return a session that ends for a new one: an idle one, else one of the address that has
        most, as long as that has more than the new one's will. No address keeps others out.
        """
        cdef HostSessions each, own = None, heaviest = None
        cdef FetchSession oldest = None
        cdef bint is_over = self.is_over_limit()
        cdef int64_t weight, most = 0, planned = wanted if is_over else 1
        for each in self.by_host.values():
            if oldest is None or (<FetchSession>each.oldest).used_ms < oldest.used_ms:
                oldest = <FetchSession>each.oldest
            weight = each.partitions if is_over else each.count
            if heaviest is None or weight > most:
                heaviest, most = each, weight
        if heaviest is None:
            return None
        if oldest.used_ms + self.idle_ms_max <= now_ms and not oldest.owner.is_parked:
            return oldest
        own = <HostSessions>self.by_host.get(host)
        if own is not None:
            planned += own.partitions if is_over else own.count
        return <FetchSession>heaviest.oldest if most > planned else None

    cdef void register(self, FetchSession session, str host, RequestHead* head,
                       FetchRequest* request, int64_t now_ms):
        cdef HostSessions peers
        # The hash table is sized for twice the partitions of the first request.
        session.slot_count = <uint32_t>request.wanted * 2 + 1
        session.slots = <FetchNode**>calloc(session.slot_count, sizeof(FetchNode*))
        if session.slots == NULL:
            return
        while self.next_id in self.by_id:
            self.next_id = self.next_id + 1 if self.next_id < 0x7FFFFFFF else 1
        session.session_id = self.next_id
        session.epoch = 1
        session.by_id = head.api_version >= VERSION_TOPIC_ID
        session.used_ms = now_ms
        self.next_id = self.next_id + 1 if self.next_id < 0x7FFFFFFF else 1
        self.by_id[session.session_id] = session
        peers = <HostSessions>self.by_host.get(host)
        if peers is None:
            peers = self.by_host[host] = HostSessions()
            peers.host = host
        peers.append(session)
        session.peers = peers

    cdef void end(self, FetchSession session):
        cdef HostSessions peers = session.peers
        session.clear()
        if peers is None:
            return
        session.peers = None
        peers.remove(session)
        if peers.count == 0:
            del self.by_host[peers.host]
        del self.by_id[session.session_id]

    cdef void evict(self, FetchSession session):
        """End another client's session; a fetch that waits in it is answered that it is over."""
        self.end(session)
        session.session_id = 0
        if session.owner.is_parked:
            session.connection.hasten_timer(0)
