"""Fetch, versions 4-18, with the incremental sessions of KIP-227, for known partitions.

A fetch looks at nodes, one per partition. Without a session they live for one request; with one
they stay, each linked to its log, and a log that changes puts its node on the session's ready list.
So an incremental fetch costs O(partitions named in the request + partitions that changed), and a
parked one costs nothing until a log wakes it.

What a request does to a session:

    session id 0, epoch -1   no session
    any id,       epoch 0    a full fetch that asks for a new session (the old one ends)
    id,           epoch n    incremental: n must be the expected epoch; names what changed
    id,           epoch -1   a full fetch that ends the session

A request that names a topic or partition that is not known here is left to the Python handler.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from broker._native.kernel.big_endian cimport store_uint16, store_uint32, store_uint64
from broker._native.kernel.cursor cimport (
    READ_DONE,
    Cursor,
    cursor_int8,
    cursor_int32,
    cursor_int64,
    cursor_take,
)
from broker._native.kernel.file_ops cimport file_pread
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.open_files cimport OpenFile
from broker._native.log.segment cimport uses_codec
from broker._native.log.segmented_log cimport LogSlice
from broker._native.log.topic_table cimport TopicEntry, TopicTable
from broker._native.log.transaction_index cimport AbortedList, aborted_list_free
from broker._native.log.turn cimport (
    LOG_LOADING,
    LOG_OK,
    LOG_OUT_OF_RANGE,
    LogStatus,
    Turn,
    Watch,
)
from broker._native.wire.envelope cimport RequestHead, read_count, read_string, read_tags
from broker._native.wire.output_queue cimport (
    OutputQueue,
    queue_commit,
    queue_file,
    queue_reserve,
)

import os

from broker.model import limits

cdef enum:
    VERSION_MIN = 4
    VERSION_SESSION = 7
    VERSION_ZSTD = 10
    VERSION_TOPIC_ID = 13
    TOPIC_ID_SIZE = 16
    CODEC_ZSTD = 4
    NODES_MAX = 10_000
    COPIED_MAX = 16 << 10      # shorter runs are copied behind the head: one send, no sendfile
    HEAD_SIZE_MAX = 4 + 4 + 1 + 4 + 2 + 4 + 5
    PART_SIZE_MAX = 4 + 2 + 8 + 8 + 8 + 5 + 4 + 5 + 1
    ABORTED_SIZE = 8 + 8 + 1

    ERROR_OFFSET_OUT_OF_RANGE = 1
    ERROR_UNKNOWN_TOPIC = 3
    ERROR_NOT_LEADER = 6
    ERROR_KAFKA_STORAGE = 56
    ERROR_SESSION_NOT_FOUND = 70
    ERROR_SESSION_EPOCH = 71
    ERROR_FENCED_EPOCH = 74
    ERROR_UNKNOWN_EPOCH = 75
    ERROR_COMPRESSION = 76
    ERROR_UNKNOWN_TOPIC_ID = 100
    ERROR_SESSION_TOPIC_ID = 106

assert NODES_MAX == limits.NATIVE_FETCH_PARTITIONS_MAX

# One partition as the request names it. Static: they live within one call.
cdef struct Wanted:
    PyObject* topic            # borrowed from the topic table
    PyObject* log
    int32_t partition
    int32_t leader_epoch
    int64_t offset
    int32_t bytes_max

cdef Wanted named[NODES_MAX]


# ---- reading the request -------------------------------------------------------------------------


cdef bint read_topic(Cursor* cursor, RequestHead* head, TopicTable topics, PyObject** entry):
    # Read a topic's name or id and look it up; False when it is malformed or not known.
    cdef const uint8_t* name
    cdef int32_t size = TOPIC_ID_SIZE
    cdef TopicEntry found
    if head.api_version >= VERSION_TOPIC_ID:
        name = cursor_take(cursor, TOPIC_ID_SIZE)
        if name == NULL:
            return False
        found = topics.find_id(name)
    else:
        if not read_string(cursor, head.is_flexible, &name, &size) or name == NULL:
            return False
        found = topics.find_name(name, <size_t>size)
    entry[0] = <PyObject*>found
    return found is not None


cdef bint name_partition(Wanted* wanted, PyObject* topic, int32_t partition):
    cdef PartitionLog log = (<TopicEntry>topic).log_of(partition)
    wanted.topic = topic
    wanted.log = <PyObject*>log
    wanted.partition = partition
    return log is not None


cdef bint read_partition(Cursor* cursor, RequestHead* head, PyObject* topic, Wanted* wanted):
    cdef int32_t partition = 0, last_fetched_epoch = -1
    cdef int64_t log_start = 0
    wanted.leader_epoch = -1
    if cursor_int32(cursor, &partition) != READ_DONE:
        return False
    if head.api_version >= 9 and cursor_int32(cursor, &wanted.leader_epoch) != READ_DONE:
        return False
    if cursor_int64(cursor, &wanted.offset) != READ_DONE:
        return False
    if head.api_version >= 12 and (
            cursor_int32(cursor, &last_fetched_epoch) != READ_DONE or last_fetched_epoch != -1):
        return False
    if head.api_version >= 5 and cursor_int64(cursor, &log_start) != READ_DONE:
        return False
    if cursor_int32(cursor, &wanted.bytes_max) != READ_DONE:
        return False
    if head.is_flexible and not read_tags(cursor):
        return False
    return name_partition(wanted, topic, partition)


cdef bint read_wanted(Cursor* cursor, RequestHead* head, TopicTable topics,
                      FetchRequest* request):
    cdef int32_t topic_count = 0, count = 0, _i, _j
    cdef PyObject* topic
    if not read_count(cursor, head.is_flexible, &topic_count):
        return False
    for _i in range(topic_count):
        if not read_topic(cursor, head, topics, &topic) or not read_count(
                cursor, head.is_flexible, &count):
            return False
        if count < 1 or count > NODES_MAX - request.wanted:
            return False
        if request.wanted > 0 and topic == named[request.wanted - 1].topic:
            return False  # twice in a row: the reply would make one of them
        for _j in range(count):
            if not read_partition(cursor, head, topic, &named[request.wanted]):
                return False
            request.wanted += 1
        if head.is_flexible and not read_tags(cursor):
            return False
    return True


cdef bint read_forgotten(Cursor* cursor, RequestHead* head, TopicTable topics,
                         FetchRequest* request):
    cdef int32_t topic_count = 0, count = 0, partition = 0, _i, _j
    cdef PyObject* topic
    if not read_count(cursor, head.is_flexible, &topic_count):
        return False
    for _i in range(topic_count):
        if not read_topic(cursor, head, topics, &topic) or not read_count(
                cursor, head.is_flexible, &count):
            return False
        if count > NODES_MAX - request.wanted - request.forgotten:
            return False
        for _j in range(count):
            if cursor_int32(cursor, &partition) != READ_DONE or not name_partition(
                    &named[request.wanted + request.forgotten], topic, partition):
                return False
            request.forgotten += 1
        if head.is_flexible and not read_tags(cursor):
            return False
    return True


cdef bint read_request(RequestHead* head, TopicTable topics, FetchRequest* request):
    cdef Cursor cursor = head.body
    cdef int32_t replica = 0, size = 0
    cdef const uint8_t* rack
    memset(request, 0, sizeof(FetchRequest))
    request.epoch = -1
    if head.api_version <= 14 and (
            cursor_int32(&cursor, &replica) != READ_DONE or replica >= 0):
        return False
    if (cursor_int32(&cursor, &request.wait_ms) != READ_DONE
            or cursor_int32(&cursor, &request.bytes_min) != READ_DONE
            or cursor_int32(&cursor, &request.bytes_max) != READ_DONE
            or cursor_int8(&cursor, &request.isolation) != READ_DONE):
        return False
    if head.api_version >= VERSION_SESSION and (
            cursor_int32(&cursor, &request.session_id) != READ_DONE
            or cursor_int32(&cursor, &request.epoch) != READ_DONE):
        return False
    if not read_wanted(&cursor, head, topics, request):
        return False
    if head.api_version >= VERSION_SESSION and not read_forgotten(&cursor, head, topics, request):
        return False
    if head.api_version >= 11 and not read_string(&cursor, head.is_flexible, &rack, &size):
        return False
    return not head.is_flexible or read_tags(&cursor)


# ---- sessions ------------------------------------------------------------------------------------


@cython.final
cdef class FetchSession:
    """The partitions one reader asks for, and the request it waits on."""

    def __cinit__(self, FetchSessions sessions, Turn turn):
        self.sessions = sessions
        self.turn = turn
        self.owner.object = <void*>self

    def __dealloc__(self):
        self.clear()

    cdef void clear(self) noexcept:
        cdef Watch* watch = self.owner.ready_head
        while watch != NULL:
            watch.is_ready = False      # all at once: one by one would be a walk for each
            watch = watch.ready_next
        self.owner.ready_head = self.owner.ready_tail = NULL
        while self.first != NULL:
            self.drop(self.first)
        free(self.slots)
        self.slots = NULL
        self.slot_count = 0

    cdef uint32_t slot_of(self, void* log) noexcept:
        return <uint32_t>((<uint64_t>log * <uint64_t>0x9E3779B97F4A7C15) >> 32) % self.slot_count

    cdef FetchNode* find(self, void* log) noexcept:
        cdef FetchNode* node
        if self.slots == NULL:
            return NULL
        node = self.slots[self.slot_of(log)]
        while node != NULL and node.log != <PyObject*>log:
            node = node.next_in_slot
        return node

    cdef FetchNode* add(self, PyObject* topic, PyObject* log) noexcept:
        """Append a node; NULL without memory."""
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
        if self.slots != NULL:
            slot = self.slot_of(log)
            node.next_in_slot = self.slots[slot]
            self.slots[slot] = node
        return node

    cdef void drop(self, FetchNode* node) noexcept:
        """Forget a partition."""
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
        self.unready(node)
        Py_DECREF(<object>node.topic)
        Py_DECREF(<object>node.log)
        free(node)

    cdef void unready(self, FetchNode* node) noexcept:
        # Take a node off the ready list: rare (a partition is forgotten), so a walk will do.
        cdef Watch* before = NULL
        cdef Watch* watch = self.owner.ready_head
        if not node.watch.is_ready:
            return
        while watch != &node.watch:
            before = watch
            watch = watch.ready_next
        if before == NULL:
            self.owner.ready_head = watch.ready_next
        else:
            before.ready_next = watch.ready_next
        if self.owner.ready_tail == watch:
            self.owner.ready_tail = before
        node.watch.is_ready = False

    cdef void mark(self, FetchNode* node) noexcept:
        """Put a node on the ready list, behind those that wait longer."""
        if node.watch.is_ready:
            return
        node.watch.is_ready = True
        node.watch.ready_next = NULL
        if self.owner.ready_head == NULL:
            self.owner.ready_head = &node.watch
        else:
            self.owner.ready_tail.ready_next = &node.watch
        self.owner.ready_tail = &node.watch

    cdef void apply(self, FetchRequest* request) noexcept:
        # Take over what the request says about partitions.
        cdef FetchNode* node
        cdef int32_t i
        for i in range(request.wanted):
            node = self.find(named[i].log)
            if node == NULL:
                node = self.add(named[i].topic, named[i].log)
                if node == NULL:
                    return
                node.partition = named[i].partition
                if self.session_id != 0:
                    (<PartitionLog>node.log).watch(&node.watch)
            node.offset = named[i].offset
            node.leader_epoch = named[i].leader_epoch
            node.bytes_max = named[i].bytes_max
            self.mark(node)
        for i in range(request.wanted, request.wanted + request.forgotten):
            node = self.find(named[i].log)
            if node != NULL:
                self.drop(node)

    cdef void park(self) noexcept:
        """Have the logs wake this fetch."""
        cdef FetchNode* node
        self.owner.is_parked = True
        node = self.first
        while node != NULL:
            (<PartitionLog>node.log).watch(&node.watch)
            node = node.next if self.session_id == 0 else NULL

    cdef void unpark(self) noexcept:
        self.owner.is_parked = False
        self.turn.forget(&self.owner)

    cdef bint has_enough(self) noexcept:
        """Whether there is enough to answer before the deadline (KIP-74, min bytes)."""
        cdef Watch* watch = self.owner.ready_head
        cdef FetchNode* node
        cdef PartitionLog log
        cdef int64_t total = 0, available
        if self.error != 0 or self.count == 0 or self.wait_ms <= 0 or self.bytes_min <= 0:
            return True
        while watch != NULL:
            node = <FetchNode*>watch
            if node_error(self, node) != 0:
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
        """Queue the whole response: one frame."""
        cdef uint8_t* start = queue_reserve(queue, HEAD_SIZE_MAX)
        cdef uint8_t* count_at
        cdef uint8_t* at
        cdef int64_t queued_before = queue.bytes
        cdef int32_t topics
        if start == NULL:
            return
        at = start + 8
        store_uint32(start + 4, self.correlation_id)
        if self.is_flexible:
            at[0] = 0
            at += 1
        store_uint32(at, 0)                                # throttle time
        at += 4
        if self.version >= VERSION_SESSION:
            store_uint16(at, self.error)
            store_uint32(at + 2, self.session_id if self.error == 0 else 0)
            at += 6
        count_at = at
        at += 5 if self.is_flexible else 4
        queue_commit(queue, at - start)
        topics = 0 if self.error != 0 else self.put_topics(queue)
        if self.is_flexible:
            put_padded(count_at, <uint32_t>topics + 1)
            at = queue_reserve(queue, 1)
            if at != NULL:
                at[0] = 0
                queue_commit(queue, 1)
        else:
            store_uint32(count_at, topics)
        store_uint32(start, <uint32_t>(queue.bytes - queued_before - 4))
        if self.is_outdated:
            self.sessions.end(self)

    cdef int32_t put_topics(self, OutputQueue* queue) noexcept:
        # Neighbouring partitions of one topic share its entry.
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
            if self.is_full or self.has_news(node):
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
                # A topic of the same name may have come: the session starts anew to find it.
                self.is_outdated = self.is_outdated or log.is_deleted
                # What stays unread, or wrong, must be said again even if the log does not change.
                if self.session_id != 0 and (
                        node.offset < self.end_for(log) or node_error(self, node) != 0):
                    self.mark(node)
        self.end_topic(queue, count_at, parts)
        return topics

    cdef int64_t end_for(self, PartitionLog log) noexcept:
        # Readers of committed records stop at the first transaction that is not decided.
        if not self.is_committed or log.transactions.first_undecided > log.high_watermark:
            return log.high_watermark
        return log.transactions.first_undecided

    cdef bint has_news(self, FetchNode* node) noexcept:
        cdef PartitionLog log = <PartitionLog>node.log
        return (node.offset < self.end_for(log)
                or log.high_watermark != node.sent_high_watermark
                or log.log_start_offset != node.sent_log_start
                or node_error(self, node) != 0)

    cdef uint8_t* put_topic(self, OutputQueue* queue, TopicEntry topic) noexcept:
        # Returns where the count of its partitions goes; NULL without memory.
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
        cdef uint8_t* at
        if count_at == NULL:
            return
        if not self.is_flexible:
            store_uint32(count_at, parts)
            return
        put_padded(count_at, parts + 1)
        at = queue_reserve(queue, 1)
        if at != NULL:
            at[0] = 0
            queue_commit(queue, 1)

    cdef void put_partition(self, OutputQueue* queue, FetchNode* node, int64_t* left,
                            bint* is_first) noexcept:
        cdef PartitionLog log = <PartitionLog>node.log
        cdef LogSlice found
        cdef PyObject* file = NULL
        cdef int64_t size_max = node.bytes_max if node.bytes_max < left[0] else left[0]
        cdef int16_t error = node_error(self, node)
        cdef AbortedList aborted = [NULL, 0, 0]
        cdef uint8_t* at
        found.size = 0
        if error == 0 and (size_max > 0 or is_first[0]):
            error = error_of(self, log.slice(
                node.offset, self.end_for(log), size_max if size_max > 0 else 0, is_first[0],
                &found, &file))
        if found.size > 0 and self.version < VERSION_ZSTD and uses_codec(
                (<OpenFile>file).fd, found.position, found.position + found.size, CODEC_ZSTD):
            error = ERROR_COMPRESSION
        if found.size > 0 and error == 0 and self.is_committed and log.find_aborted(
                node.offset, found.next_offset, &aborted) < 0:
            error = ERROR_KAFKA_STORAGE   # without the list, aborted records would pass for good
        if found.size > 0 and error != 0:
            Py_DECREF(<object>file)
            file = NULL
            found.size = 0
        at = queue_reserve(queue, PART_SIZE_MAX + aborted.count * ABORTED_SIZE + (
            <size_t>found.size if found.size <= COPIED_MAX else 0))
        if at == NULL:
            aborted_list_free(&aborted)
            Py_XDECREF(file)
            return
        node.sent_high_watermark = log.high_watermark
        node.sent_log_start = log.log_start_offset
        self.put_head(queue, at, node, error, &aborted, found.size)
        aborted_list_free(&aborted)
        if found.size > 0:
            is_first[0] = False
            left[0] -= found.size
            put_records(queue, file, &found)
        if self.is_flexible:
            at = queue_reserve(queue, 1)
            if at != NULL:
                at[0] = 0
                queue_commit(queue, 1)

    cdef void put_head(self, OutputQueue* queue, uint8_t* start, FetchNode* node, int16_t error,
                       AbortedList* aborted, int64_t records) noexcept:
        # Everything of a partition before its records.
        cdef PartitionLog log = <PartitionLog>node.log
        cdef uint8_t* at = start
        store_uint32(at, node.partition)
        store_uint16(at + 4, error)
        store_uint64(at + 6, log.high_watermark if error == 0 else -1)
        store_uint64(at + 14, min(log.high_watermark, log.transactions.first_undecided)
                     if error == 0 else -1)
        at += 22
        if self.version >= 5:
            store_uint64(at, log.log_start_offset if error == 0 else -1)
            at += 8
        at = self.put_aborted(at, aborted if self.is_committed and error == 0 else NULL)
        if self.version >= 11:
            store_uint32(at, -1)                                          # preferred replica
            at += 4
        if self.is_flexible:
            at = put_compact(at, <uint32_t>records + 1)
        else:
            store_uint32(at, <uint32_t>records)
            at += 4
        queue_commit(queue, at - start)

    cdef uint8_t* put_aborted(self, uint8_t* at, AbortedList* aborted) noexcept:
        # Null for who reads uncommitted: some clients would leave out what is in a list.
        cdef size_t i
        if self.is_flexible:
            at = put_compact(at, 0 if aborted == NULL else <uint32_t>aborted.count + 1)
        else:
            store_uint32(at, <uint32_t>-1 if aborted == NULL else <uint32_t>aborted.count)
            at += 4
        if aborted == NULL:
            return at
        for i in range(aborted.count):
            store_uint64(at, aborted.entries[i].producer_id)
            store_uint64(at + 8, aborted.entries[i].first_offset)
            at += 16
            if self.is_flexible:
                at[0] = 0                                                 # tags
                at += 1
        return at


cdef int16_t node_error(FetchSession session, FetchNode* node) noexcept:
    cdef PartitionLog log = <PartitionLog>node.log
    if log.is_deleted:
        return ERROR_UNKNOWN_TOPIC_ID if session.version >= VERSION_TOPIC_ID else (
            ERROR_UNKNOWN_TOPIC)
    if log.is_loading:
        return ERROR_NOT_LEADER
    if log.is_offline:
        return ERROR_KAFKA_STORAGE
    if node.leader_epoch >= 0 and node.leader_epoch < log.leader_epoch:
        return ERROR_FENCED_EPOCH
    if node.leader_epoch > log.leader_epoch:
        return ERROR_UNKNOWN_EPOCH
    if node.offset < log.log_start_offset or node.offset > log.log_end_offset:
        return ERROR_OFFSET_OUT_OF_RANGE
    return 0


cdef int16_t error_of(FetchSession session, LogStatus status) noexcept:
    if status == LOG_OUT_OF_RANGE:
        return ERROR_OFFSET_OUT_OF_RANGE
    if status == LOG_LOADING:
        return ERROR_NOT_LEADER
    return 0 if status == LOG_OK else ERROR_KAFKA_STORAGE


cdef inline uint8_t* put_compact(uint8_t* at, uint32_t value) noexcept:
    while value >= 0x80:
        at[0] = <uint8_t>(value | 0x80)
        value >>= 7
        at += 1
    at[0] = <uint8_t>value
    return at + 1


cdef inline void put_padded(uint8_t* at, uint32_t value) noexcept:
    # A varint of exactly five bytes: its place was reserved before the value was known.
    cdef int i
    for i in range(4):
        at[i] = <uint8_t>(value | 0x80)
        value >>= 7
    at[4] = <uint8_t>value


cdef void put_records(OutputQueue* queue, PyObject* file, LogSlice* found) noexcept:
    # Takes over the reference. Short runs are read behind the head, long ones go from the page
    # cache to the socket.
    cdef uint8_t* at
    cdef ssize_t size
    if found.size > COPIED_MAX:
        queue_file(queue, file, (<OpenFile>file).fd, found.position, found.size)
        return
    at = queue_reserve(queue, <size_t>found.size)
    if at != NULL:
        size = file_pread((<OpenFile>file).fd, at, <size_t>found.size, found.position)
        if size < found.size:
            # The disk failed under a read: nothing true can stand here, and a client that checks
            # CRCs refuses zeros.
            memset(at + (size if size > 0 else 0), 0, found.size - (size if size > 0 else 0))
        queue_commit(queue, <size_t>found.size)
    Py_DECREF(<object>file)


@cython.final
cdef class FetchSessions:
    """The broker's fetch sessions, a bounded number (max.incremental.fetch.session.cache.slots)."""

    def __cinit__(self, int32_t sessions_max, int64_t idle_ms_max, int32_t bytes_max):
        self.by_id = {}
        self.sessions_max = sessions_max
        self.idle_ms_max = idle_ms_max
        self.bytes_max = bytes_max
        self.wait_ms_max = limits.FETCH_WAIT_MS_MAX
        # Anywhere: a client may still hold the id of a session of the last life.
        self.next_id = 1 + int.from_bytes(os.urandom(4), "big") % 0x7FFFFFFF

    def __len__(self):
        return len(self.by_id)

    cdef FetchSession begin(self, TopicTable topics, Turn turn, RequestHead* head,
                            FetchStatus* status):
        """Take a request in; the session that will answer it, None when it is not served here."""
        cdef FetchRequest request
        cdef FetchSession session
        status[0] = FETCH_NOT_SERVED
        if head.api_version < VERSION_MIN or not read_request(head, topics, &request):
            return None
        session = self.session_for(turn, head, &request)
        session.correlation_id = head.correlation_id
        session.version = head.api_version
        session.is_flexible = head.is_flexible
        session.is_committed = request.isolation == 1
        session.wait_ms = min(request.wait_ms, self.wait_ms_max)
        session.bytes_min = request.bytes_min
        session.bytes_max = min(request.bytes_max, self.bytes_max)
        if session.error == 0:
            session.apply(&request)
        status[0] = FETCH_READY if session.has_enough() else FETCH_PARKED
        return session

    cdef FetchSession session_for(self, Turn turn, RequestHead* head, FetchRequest* request):
        cdef FetchSession session = None
        if request.session_id != 0:
            session = <FetchSession>self.by_id.get(request.session_id)
        if request.epoch != 0 and request.epoch != -1:
            return self.continued(turn, head, request, session)
        if session is not None:
            self.end(session)
        session = FetchSession(self, turn)
        session.is_full = True
        if request.epoch == 0 and request.wanted > 0 and self.has_room(turn.now_ms):
            self.register(session, head, request, turn.now_ms)
        return session

    cdef FetchSession continued(self, Turn turn, RequestHead* head, FetchRequest* request,
                                FetchSession session):
        cdef int16_t error = 0
        if session is None or session.owner.is_parked:
            error = ERROR_SESSION_NOT_FOUND
        elif session.epoch != request.epoch:
            error = ERROR_SESSION_EPOCH
        elif session.by_id != (head.api_version >= VERSION_TOPIC_ID):
            error = ERROR_SESSION_TOPIC_ID
        if error != 0:
            session = FetchSession(self, turn)
            session.error = error
            return session
        session.is_full = False
        session.used_ms = turn.now_ms
        session.epoch = session.epoch + 1 if session.epoch < 0x7FFFFFFF else 1
        return session

    cdef bint has_room(self, int64_t now_ms):
        cdef FetchSession oldest
        if len(self.by_id) < self.sessions_max:
            return True
        oldest = min(self.by_id.values(), key=used_ms_of)
        if oldest.used_ms + self.idle_ms_max > now_ms or oldest.owner.is_parked:
            return False
        self.end(oldest)
        return True

    cdef void register(self, FetchSession session, RequestHead* head, FetchRequest* request,
                       int64_t now_ms):
        # Room for as many partitions again as the first request names.
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

    cdef void end(self, FetchSession session):
        self.by_id.pop(session.session_id, None)
        session.clear()


def used_ms_of(FetchSession session):
    """When a session was last used, for choosing the one to evict."""
    return session.used_ms
