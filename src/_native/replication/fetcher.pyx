"""Copies partitions from one leader: requests of positions, replies with records, appends.

    connect -> ask -> reply: append each partition -> the turn's flush, the sync -> ask -> ...

A request says up to where the records are durable here, so the next one leaves when all that was
brought is durable (`blocking` partitions are not yet), or a part of it after some time; replies
that arrive meanwhile stay unread. If nothing of it becomes durable, because a disk hangs, the other
partitions are asked for now and then: the leader must not take them for dead, too. There is one
request in flight. A second one is sent while the first is parked at the leader, if there is
something to tell it: partitions that are new or gone, or later positions. The leader then answers
the first at once.

The session of the leader has each partition's position. A request names only those whose position
or log start has changed (replica_table). Records of a partition that has not been named since its
last ones are ignored, and so is everything that was asked for before the partition was added, or
added again.

A throttled partition that is behind is not named while the throttle is spent.

What the native side cannot solve ends the copying of a partition and is an event for Python, which
adds it again. The calls `on_events` and `on_lost` come within a turn, and must only schedule.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.segment cimport Segment
from broker._native.log.turn cimport (
    LOG_CORRUPT, LOG_GAP, LOG_OK, LogStatus, Turn, Watch, ready_remove,
)
from broker._native.messages.error_codes cimport (
    ERROR_FETCH_SESSION_ID_NOT_FOUND,
    ERROR_FETCH_SESSION_TOPIC_ID_ERROR,
    ERROR_INVALID_FETCH_SESSION_EPOCH,
    ERROR_OFFSET_OUT_OF_RANGE,
    ERROR_STALE_BROKER_EPOCH,
)
from broker._native.messages.fields cimport TOPIC_ID_SIZE
from broker._native.replication.replica_table cimport (
    REPLICA_FORGOTTEN,
    REPLICA_HELD_BACK,
    REPLICA_NAMED,
    REPLICA_SYNCING,
    REPLICA_TO_NAME,
    Replica,
    ReplicaList,
    table_add,
    table_drop,
    table_find,
    table_free,
    table_move,
)
from broker._native.replication.reply_reader cimport (
    PARTITION_NONE,
    PARTITION_READ,
    PartitionRead,
    ReplyHead,
    ReplyPartition,
    reply_begin,
    reply_next,
    reply_resume,
)
from broker._native.replication.request_writer cimport (
    FORGOTTEN_PARTITION_SIZE,
    REQUEST_END_SIZE_MAX,
    REQUEST_HEAD_SIZE_MAX,
    REQUEST_PARTITION_SIZE,
    REQUEST_TOPIC_SIZE_MAX,
    RequestPartition,
    put_forgotten,
    put_forgotten_count,
    put_partition,
    put_request_end,
    put_request_head,
    put_topic,
    put_topic_end,
)
from broker._native.wire.connection cimport Connection, NativeProtocol, Wait
from broker._native.wire.frame cimport frame_announced, frame_cut
from broker._native.wire.frame_memory cimport INPUT_WAITING
from broker._native.wire.output_queue cimport queue_commit, queue_reserve
from broker._native.wire.poller cimport Poller
from broker._native.wire.tls cimport TlsChannel

from enum import Enum

from broker.model import limits

cdef enum:
    IN_FLIGHT_MAX = 2
    REPLY_SIZE_MIN = 4 + 1 + 4 + 2 + 4 + 1 + 1
    CORRELATION_MASK = 0x7FFFFFFF
    SESSION_EPOCH_MAX = 0x7FFFFFFF
    CHECK_MS = 1000                 # between two looks at the time of requests and at the logs
    THROTTLE_MS = 50                # between two looks at what is held back
    PARTITION_WORK = 4              # in units of an ordinary request (PollerState.work)
    RECORDS_WORK_SHIFT = 13         # 8 KiB that are checked and appended take as long as one

cdef int64_t SYNC_PATIENCE_MS = limits.REPLICA_SYNC_PATIENCE_MS
cdef int64_t FLUSHED_BYTES_MAX = limits.REPLICA_FLUSHED_BYTES_MAX
cdef int32_t NAMED_MAX = limits.REPLICA_FETCH_PARTITIONS_NAMED_MAX
cdef uint32_t REPLY_SLACK_BYTES = limits.REPLICA_FETCH_REPLY_SLACK_BYTES


class ReplicaEvent(Enum):
    """Why a partition is not copied any more from the leader of an epoch, with two numbers.

    DIVERGING: the leader's log has another history; an epoch, and its end at the leader.
    OUT_OF_RANGE: the leader has no such offset; its log start, or -1.
    ERROR: an error code of the leader.
    CORRUPT: its records are not valid, or of an epoch below that of what is here.
    GAP: its records do not follow what is here.
    FAILED: the log takes no records: it is full, offline, or not a follower's any more.
    STALE_BROKER: of no partition: the leader knows a later registration of this broker, or none.
    """

    DIVERGING = "diverging"
    OUT_OF_RANGE = "out of range"
    ERROR = "error"
    CORRUPT = "corrupt"
    GAP = "gap"
    FAILED = "failed"
    STALE_BROKER = "stale broker"


cdef inline bint takes_records(PartitionLog log) noexcept:
    return log.is_follower and not (
        log.is_offline or log.is_deleted or log.is_loading or log.is_full)


cdef inline bint is_durable(PartitionLog log) noexcept:
    # As far as the durability of the topic demands it.
    return log.kept_end() >= log.log_end_offset


@cython.final
cdef class ReplyFrames(NativeProtocol):
    """Cuts what a leader sends into replies."""

    def __cinit__(self, ReplicaFetcher fetcher not None):
        self.fetcher = fetcher
        # The first batch is sent whole, however long it is.
        self.size_max = <uint32_t>fetcher.fields.bytes_max + REPLY_SLACK_BYTES

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept:
        return frame_cut(data, size, REPLY_SIZE_MIN, self.size_max, frame)

    cdef int64_t announced(self, const uint8_t* data, size_t size) noexcept:
        return frame_announced(data, size, self.size_max)

    cdef bint serve(self, Connection connection, Cursor frame):
        return self.fetcher.serve(connection, frame)

    cdef void refuse(self, Connection connection, int64_t cut):
        connection.close("a reply of a size that cannot be")

    cdef void lost(self, Connection connection, str reason):
        self.fetcher.lost(reason)


@cython.no_gc_clear    # `turn` would be cleared before the partitions are released
@cython.final
cdef class ReplicaFetcher(Wait):
    """The partitions that one leader's broker leads and this one copies.

    It is the Wait of its connection from its begin to its end.
    """

    def __cinit__(self, Turn turn not None, int32_t broker_id, int64_t broker_epoch, on_events,
                  on_lost, *, int32_t wait_ms, int32_t bytes_min, int32_t bytes_max,
                  int32_t partition_bytes_max, int64_t timeout_ms):
        """Copy nothing yet.

        `on_events` is called when there are events to take, `on_lost` with the reason when the
        connection has ended.
        """
        self.turn = turn
        self.fields.replica_id = broker_id
        self.fields.replica_epoch = broker_epoch
        self.fields.bytes_min = bytes_min
        self.fields.bytes_max = bytes_max
        self.wait_ms = wait_ms
        self.partition_bytes_max = partition_bytes_max
        self.timeout_ms = timeout_ms
        self.on_events = on_events
        self.on_lost = on_lost
        self.events = []

    def __dealloc__(self):
        self.forget_session()
        cdef int state
        for state in range(REPLICA_FORGOTTEN):
            while self.table.lists[state].first != NULL:
                self.release(self.table.lists[state].first)
        table_free(&self.table)

    # ---- from Python ----------------------------------------------------------------------------

    @property
    def broker_epoch(self):
        """Of this broker's registration, under which it asks."""
        return self.fields.replica_epoch

    @broker_epoch.setter
    def broker_epoch(self, int64_t epoch):
        self.fields.replica_epoch = epoch

    @property
    def is_connected(self):
        """Whether it has a connection."""
        return self.connection is not None

    @property
    def partitions(self):
        """How many partitions are copied."""
        return self.table.map.count - <uint32_t>self.table.lists[REPLICA_FORGOTTEN].count

    def connect(self, Poller poller not None, int fd, str peer_host, TlsChannel tls=None):
        """Ask over this socket, which is connected and not blocking, and is the poller's now."""
        if self.connection is not None:
            raise ValueError("it has a connection")
        poller.read_clocks()
        self.begin(poller.add_outbound(fd, peer_host, ReplyFrames(self), tls))

    def add(self, PartitionLog log not None, bytes topic_id not None, int32_t partition,
            int32_t epoch):
        """Copy a partition, of which this log follows the leader of an epoch."""
        cdef Replica* replica
        if PyBytes_GET_SIZE(topic_id) != TOPIC_ID_SIZE:
            raise ValueError(f"topic id of {len(topic_id)} bytes")
        cdef const uint8_t* id_bytes = <const uint8_t*>PyBytes_AS_STRING(topic_id)
        self.remove(topic_id, partition)
        replica = table_find(&self.table, id_bytes, partition)
        if replica == NULL:
            replica = table_add(&self.table, id_bytes, partition, REPLICA_SYNCING)
            if replica == NULL:
                raise MemoryError
        else:
            table_move(&self.table, replica, REPLICA_SYNCING)
        Py_INCREF(log)
        replica.log = <PyObject*>log
        replica.epoch = epoch
        replica.named.watch.owner = &self.owner
        log.watch_as_replica(&replica.named.watch)
        self.settle(replica)
        self.request_turn()

    def remove(self, bytes topic_id not None, int32_t partition):
        """Copy a partition no longer, if it was."""
        cdef Replica* replica = NULL
        if PyBytes_GET_SIZE(topic_id) == TOPIC_ID_SIZE:
            replica = table_find(
                &self.table, <const uint8_t*>PyBytes_AS_STRING(topic_id), partition)
        if replica != NULL and replica.state != REPLICA_FORGOTTEN:
            self.release(replica)
            self.request_turn()

    def take_events(self):
        """Return the (kind, log, epoch, number, number) since the last call, and forget them."""
        cdef list events = self.events
        self.events = []
        return events

    def close(self, str reason):
        """End the connection, if there is one."""
        cdef Connection connection = self.connection    # only this holds it then
        if connection is not None:
            connection.close(reason)

    cdef void request_turn(self):
        # From outside of a turn: its end asks.
        if self.connection is not None:
            self.connection.request_drain()
            self.turn.request_end()

    # ---- the connection -------------------------------------------------------------------------

    cdef int begin(self, Connection connection) except -1:
        connection.begin_wait(self)
        connection.is_busy = False       # replies are served at any time
        connection.set_timer(CHECK_MS)
        self.checked_ms = connection.poller.monotonic_ms
        self.readable_ms = connection.active_ms
        self.owner.object = <void*>connection
        self.owner.is_parked = True
        self.forget_session()
        self.settle_all()
        self.request_turn()
        return 0

    cdef void ended(self):
        cdef Replica* replica = self.table.lists[REPLICA_SYNCING].first
        while replica != NULL:
            replica.is_blocking = False
            replica = replica.next
        self.blocking = 0
        self.in_flight = 0
        self.is_reading = False
        self.owner.is_parked = False
        self.turn.forget(&self.owner)

    cdef void lost(self, str reason):
        if self.on_lost is not None:
            self.on_lost(reason)

    cdef void due(self):
        cdef Connection connection = self.connection
        cdef int64_t now_ms = connection.poller.monotonic_ms
        if now_ms - self.checked_ms >= CHECK_MS:
            # Looks at the logs, too, in case that one has changed without a word.
            self.checked_ms = now_ms
            self.settle_all()
        self.name_held_back()
        self.lose_patience()
        if (self.in_flight > 0 and self.blocking == 0 and not connection.has_unserved
                and connection.input.state != INPUT_WAITING
                and now_ms - max(connection.active_ms, self.readable_ms)
                >= self.wait_ms + self.timeout_ms):
            connection.close("it has not answered in time")
            return
        connection.set_timer(CHECK_MS if self.blocking == 0 else SYNC_PATIENCE_MS)
        if self.table.lists[REPLICA_HELD_BACK].first != NULL:
            connection.hasten_timer(THROTTLE_MS)

    cdef bint write_frames(self):
        # The connection is about to send.
        cdef Connection connection = self.connection
        if self.must_ask() and not self.ask(connection):
            connection.close("no memory for a request")
        return False

    # ---- replies --------------------------------------------------------------------------------

    cdef bint serve(self, Connection connection, Cursor frame):
        """Take a reply, or the next part of it; return False if the connection was closed."""
        cdef ReplyPartition partition
        cdef PartitionRead read
        cdef int64_t taken = 0
        if not self.is_reading:
            if not self.begin_reply(connection, frame):
                return False
        else:
            reply_resume(&self.reader, frame)
        while True:
            read = reply_next(&self.reader, &partition)
            if read != PARTITION_READ:
                break
            self.take_partition(&partition)
            connection.poller.work += PARTITION_WORK + (
                partition.records_size >> RECORDS_WORK_SHIFT)
            taken += partition.records_size
            # What is appended is written at once at the next flush, which no budget interrupts.
            if connection.poller.check_budget() or taken >= FLUSHED_BYTES_MAX:
                connection.is_partly_served = True
                return True
        if read != PARTITION_NONE:
            connection.close("a reply that is malformed")
            return False
        self.end_reply(connection)
        return True

    cdef bint begin_reply(self, Connection connection, Cursor frame):
        cdef ReplyHead head
        cdef int64_t first = self.asked - self.in_flight + 1
        if not reply_begin(&self.reader, frame, &head):
            connection.close("a reply that is malformed")
            return False
        if self.in_flight == 0 or head.correlation_id != <int32_t>(first & CORRELATION_MASK):
            connection.close("a reply to nothing that was asked")
            return False
        if not self.take_head(connection, &head):
            return False
        self.is_reading = True
        return True

    cdef bint take_head(self, Connection connection, ReplyHead* head):
        if head.error == 0:
            if self.fields.session_id == 0:
                self.fields.session_id = head.session_id
                self.is_session_over = head.session_id == 0
            return True
        if self.fields.session_id != 0 and head.error in (
                ERROR_FETCH_SESSION_ID_NOT_FOUND, ERROR_INVALID_FETCH_SESSION_EPOCH,
                ERROR_FETCH_SESSION_TOPIC_ID_ERROR):
            self.is_session_over = True
            return True
        if head.error == ERROR_STALE_BROKER_EPOCH:
            self.notify(ReplicaEvent.STALE_BROKER, None, 0, 0, 0)
        connection.close(f"it has answered with error {head.error}")
        return False

    cdef void take_partition(self, ReplyPartition* partition):
        cdef Replica* replica = table_find(
            &self.table, partition.topic_id, partition.partition)
        if replica == NULL or replica.state != REPLICA_NAMED or (
                replica.named_in > self.asked - self.in_flight + 1):
            return
        if partition.error != 0:
            self.take_error(replica, partition)
        elif partition.is_diverging:
            self.fail(replica, ReplicaEvent.DIVERGING, partition.diverging_epoch,
                      partition.diverging_end)
        else:
            self.take_records(replica, partition)

    cdef void take_error(self, Replica* replica, ReplyPartition* partition):
        if partition.error == ERROR_OFFSET_OUT_OF_RANGE:
            self.fail(replica, ReplicaEvent.OUT_OF_RANGE, partition.log_start, 0)
        else:
            self.fail(replica, ReplicaEvent.ERROR, partition.error, 0)

    cdef void take_records(self, Replica* replica, ReplyPartition* partition):
        cdef PartitionLog log = <PartitionLog>replica.log
        cdef int64_t end = log.log_end_offset
        cdef LogStatus status = log.append_replicated(
            partition.records, <size_t>partition.records_size, partition.high_watermark,
            partition.log_start, replica.epoch)
        if status == LOG_OK and log.log_end_offset == end and partition.records_size > 0:
            status = LOG_CORRUPT         # not even one whole batch: it would be asked for again
        if status == LOG_CORRUPT:
            self.fail(replica, ReplicaEvent.CORRUPT, 0, 0)
        elif status == LOG_GAP:
            self.fail(replica, ReplicaEvent.GAP, 0, 0)
        elif status != LOG_OK:
            self.fail(replica, ReplicaEvent.FAILED, 0, 0)
        elif log.log_end_offset > end:
            if log.is_throttled:
                self.turn.follower_throttle.spend(partition.records_size)
            table_move(&self.table, replica, REPLICA_SYNCING)
            replica.is_blocking = True
            self.blocking += 1
            log.watch_as_replica(&replica.named.watch)
        elif log.log_start_offset > replica.named_start:
            table_move(&self.table, replica, REPLICA_TO_NAME)    # the leader may wait for that

    cdef void end_reply(self, Connection connection):
        self.is_reading = False
        self.in_flight -= 1
        self.replies += 1
        self.block_unsynced()
        if self.blocking > 0:
            connection.is_busy = True    # later replies wait
            self.blocked_ms = connection.poller.monotonic_ms
            connection.reset_timer(SYNC_PATIENCE_MS)
        connection.request_drain()

    cdef void block_unsynced(self) noexcept:
        # Of earlier replies, too: the leader sends their records again with each reply.
        cdef Replica* replica = self.table.lists[REPLICA_SYNCING].first
        while replica != NULL:
            if replica.is_in_session and not replica.is_blocking:
                replica.is_blocking = True
                self.blocking += 1
            replica = replica.next

    # ---- logs -----------------------------------------------------------------------------------

    cdef void woken(self):
        cdef Watch* watch = self.owner.ready_head
        cdef Watch* after
        self.owner.ready_head = self.owner.ready_tail = NULL
        while watch != NULL:
            after = watch.ready_next
            watch.is_ready = False
            if (<Replica*>watch).state == REPLICA_SYNCING:
                self.settle(<Replica*>watch)
            watch = after

    cdef void settle(self, Replica* replica):
        """Let the next request name a partition whose records are durable; fail one whose log has.
        """
        cdef PartitionLog log = <PartitionLog>replica.log
        if not takes_records(log):
            self.fail(replica, ReplicaEvent.FAILED, 0, 0)
        elif is_durable(log):
            log.unwatch(&replica.named.watch)
            self.name_or_hold_back(replica)
            self.unblock(replica)
            self.lose_patience()
            if self.connection is not None:
                self.connection.request_drain()

    cdef void name_or_hold_back(self, Replica* replica):
        if not (<PartitionLog>replica.log).is_held_back():
            table_move(&self.table, replica, REPLICA_TO_NAME)
            return
        table_move(&self.table, replica, REPLICA_HELD_BACK)
        if self.connection is not None:
            self.connection.hasten_timer(THROTTLE_MS)

    cdef void name_held_back(self):
        """Let the next request name what has been held back, as far as it is not any more."""
        cdef int32_t count = self.table.lists[REPLICA_HELD_BACK].count, _i
        for _i in range(count):
            self.name_or_hold_back(self.table.lists[REPLICA_HELD_BACK].first)
        if self.table.lists[REPLICA_HELD_BACK].count < count:
            self.connection.request_drain()

    cdef void settle_all(self):
        cdef Replica* replica = self.table.lists[REPLICA_SYNCING].first
        cdef Replica* after
        while replica != NULL:
            after = replica.next
            self.settle(replica)
            replica = after

    cdef void unblock(self, Replica* replica):
        if not replica.is_blocking:
            return
        replica.is_blocking = False
        self.blocking -= 1
        if self.blocking == 0:
            self.end_blocking()

    cdef void lose_patience(self):
        """Let what is durable be told, if the rest takes long: one disk write may. If nothing is,
        let the others be asked for after a longer time.
        """
        cdef Replica* replica = self.table.lists[REPLICA_SYNCING].first
        cdef int64_t waited_ms
        if self.blocking == 0 or self.is_reading or self.connection is None:
            return
        waited_ms = self.connection.poller.monotonic_ms - self.blocked_ms
        if waited_ms < SYNC_PATIENCE_MS:
            return
        if self.table.lists[REPLICA_TO_NAME].count == 0 and (
                self.table.lists[REPLICA_NAMED].count == 0 or waited_ms < CHECK_MS):
            return
        while replica != NULL:
            replica.is_blocking = False
            replica = replica.next
        self.blocking = 0
        self.end_blocking()

    cdef void end_blocking(self):
        if not self.is_reading and self.connection is not None:
            self.readable_ms = self.connection.poller.monotonic_ms
            self.connection.is_busy = False
            self.connection.request_drain()

    cdef void notify(self, object kind, object log, int32_t epoch, object first, object second):
        self.events.append((kind, log, epoch, first, second))
        if len(self.events) == 1 and self.on_events is not None:
            self.on_events()

    cdef void fail(self, Replica* replica, object kind, object first, object second):
        """End the copying of a partition, and report why."""
        cdef object log = <object>replica.log
        cdef int32_t epoch = replica.epoch
        self.release(replica)
        self.notify(kind, log, epoch, first, second)
        if self.connection is not None:
            self.connection.request_drain()

    cdef void release(self, Replica* replica) noexcept:
        cdef PartitionLog log = <PartitionLog>replica.log
        log.unwatch(&replica.named.watch)
        ready_remove(&replica.named.watch)
        self.unblock(replica)
        replica.log = NULL
        Py_DECREF(log)
        if replica.is_in_session:
            table_move(&self.table, replica, REPLICA_FORGOTTEN)
        else:
            table_drop(&self.table, replica)

    # ---- requests -------------------------------------------------------------------------------

    cdef void forget_session(self) noexcept:
        """Begin a new session with the next request, which names all partitions."""
        while self.table.lists[REPLICA_FORGOTTEN].first != NULL:
            table_drop(&self.table, self.table.lists[REPLICA_FORGOTTEN].first)
        while self.table.lists[REPLICA_NAMED].first != NULL:
            table_move(&self.table, self.table.lists[REPLICA_NAMED].first, REPLICA_TO_NAME)
        leave_session(&self.table.lists[REPLICA_TO_NAME])
        leave_session(&self.table.lists[REPLICA_SYNCING])
        leave_session(&self.table.lists[REPLICA_HELD_BACK])
        self.is_session_over = False
        self.fields.session_id = self.fields.session_epoch = 0

    cdef bint must_ask(self) noexcept:
        cdef bint has_news
        if self.blocking > 0 or self.is_reading or self.in_flight >= IN_FLIGHT_MAX:
            return False
        if self.is_session_over:
            if self.in_flight > 0:
                return False
            self.forget_session()
        has_news = (self.table.lists[REPLICA_TO_NAME].count > 0
                    or self.table.lists[REPLICA_FORGOTTEN].count > 0)
        if self.in_flight == 0:
            return has_news or self.table.lists[REPLICA_NAMED].count > 0
        return has_news and self.fields.session_id != 0

    cdef bint ask(self, Connection connection):
        """Queue a request; return False without memory."""
        cdef int32_t named = min(self.table.lists[REPLICA_TO_NAME].count, NAMED_MAX)
        cdef int32_t forgotten = min(self.table.lists[REPLICA_FORGOTTEN].count, NAMED_MAX)
        cdef uint8_t* start = queue_reserve(
            &connection.output,
            REQUEST_HEAD_SIZE_MAX + REQUEST_END_SIZE_MAX
            + <size_t>named * (REQUEST_TOPIC_SIZE_MAX + REQUEST_PARTITION_SIZE)
            + <size_t>forgotten * (REQUEST_TOPIC_SIZE_MAX + FORGOTTEN_PARTITION_SIZE))
        cdef uint8_t* at
        if start == NULL:
            return False
        self.asked += 1
        self.in_flight += 1
        self.fields.correlation_id = <int32_t>(self.asked & CORRELATION_MASK)
        # With more to be named, the leader must not wait before it reads the next request.
        self.fields.wait_ms = self.wait_ms
        if named < self.table.lists[REPLICA_TO_NAME].count or (
                forgotten < self.table.lists[REPLICA_FORGOTTEN].count):
            self.fields.wait_ms = 0
        at = put_request_head(
            start, &self.fields,
            topics_of(self.table.lists[REPLICA_TO_NAME].first, named))
        at = self.put_named(at, named)
        at = put_forgotten_count(
            at, topics_of(self.table.lists[REPLICA_FORGOTTEN].first, forgotten))
        at = self.put_forgotten_ones(at, forgotten)
        at = put_request_end(start, at, &self.fields)
        queue_commit(&connection.output, <size_t>(at - start))
        self.fields.session_epoch = (
            self.fields.session_epoch + 1 if self.fields.session_epoch < SESSION_EPOCH_MAX else 1)
        return True

    cdef uint8_t* put_named(self, uint8_t* at, int32_t count) noexcept:
        cdef Replica* replica
        cdef PartitionLog log
        cdef RequestPartition partition
        cdef int32_t left = 0, _i
        for _i in range(count):
            replica = self.table.lists[REPLICA_TO_NAME].first
            if left == 0:
                left = same_topic(replica, count - _i)
                at = put_topic(at, replica.named.topic_id, <uint32_t>left)
            log = <PartitionLog>replica.log
            partition.partition = replica.named.partition
            partition.leader_epoch = replica.epoch
            partition.offset = log.log_end_offset
            partition.last_epoch = -1 if has_no_history(log) else log.leader_epoch
            partition.log_start = log.log_start_offset
            partition.bytes_max = self.partition_bytes_max
            if log.is_throttled:
                partition.bytes_max = <int32_t>self.turn.follower_throttle.share(
                    partition.bytes_max)
            at = put_partition(at, &partition)
            replica.is_in_session = True
            replica.named_in = self.asked
            replica.named_start = partition.log_start
            table_move(&self.table, replica, REPLICA_NAMED)
            left -= 1
            if left == 0:
                at = put_topic_end(at)
        return at

    cdef uint8_t* put_forgotten_ones(self, uint8_t* at, int32_t count) noexcept:
        cdef Replica* replica
        cdef int32_t left = 0, _i
        for _i in range(count):
            replica = self.table.lists[REPLICA_FORGOTTEN].first
            if left == 0:
                left = same_topic(replica, count - _i)
                at = put_topic(at, replica.named.topic_id, <uint32_t>left)
            at = put_forgotten(at, replica.named.partition)
            table_drop(&self.table, replica)
            left -= 1
            if left == 0:
                at = put_topic_end(at)
        return at


cdef bint has_no_history(PartitionLog log) noexcept:
    """Return whether a log is empty and does not know what was before it.

    It was begun anew; or all its records are deleted, and no epoch was left by a cut there. Its
    leader cannot tell then whether it differs, and would have it cut below its start.
    """
    if log.log_end_offset == 0:
        return False
    return (log.log_end_offset == (<Segment>log.segments[0]).base_offset
            or (log.log_end_offset == log.log_start_offset and log.leader_epoch == 0))


cdef void leave_session(ReplicaList* replicas) noexcept nogil:
    cdef Replica* replica = replicas.first
    while replica != NULL:
        replica.is_in_session = False
        replica = replica.next


cdef int32_t same_topic(const Replica* first, int32_t count_max) noexcept nogil:
    """Return how many partitions of a list, from one on, are of its topic without a break."""
    cdef const Replica* replica = first
    cdef int32_t count = 0
    while replica != NULL and count < count_max and (
            memcmp(replica.named.topic_id, first.named.topic_id, TOPIC_ID_SIZE) == 0):
        replica = replica.next
        count += 1
    return count


cdef uint32_t topics_of(const Replica* replica, int32_t count) noexcept nogil:
    """Return how many topics with partitions in a row the first ones of a list have."""
    cdef const Replica* before = NULL
    cdef uint32_t topics = 0
    cdef int32_t _i
    for _i in range(count):
        if before == NULL or memcmp(
                replica.named.topic_id, before.named.topic_id, TOPIC_ID_SIZE) != 0:
            topics += 1
        before = replica
        replica = replica.next
    return topics
