"""Kafka: length-prefixed frames. Produce, Fetch and ListOffsets are served natively.

All other requests are left to Python. The head of an answer is its length, the correlation id and,
in flexible versions, empty tagged fields.
"""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint8_t
from libc.stdlib cimport calloc, free

from broker._native.kernel.clock cimport monotonic_ns
from broker._native.kernel.cursor cimport (
    READ_DONE,
    Cursor,
    cursor_int16,
    load_int16,
    load_int32,
)
from broker._native.kernel.histogram cimport histogram_add
from broker._native.log.permissions cimport Permissions
from broker._native.protocols.kafka.envelope cimport (
    ENVELOPE_OK,
    REQUEST_HEAD_MIN,
    ApiTable,
    RequestHead,
    apis_read,
    envelope_read,
)
from broker._native.protocols.kafka.fetch cimport FetchSessions
from broker._native.protocols.kafka.handing_over cimport request_hand_over
from broker._native.protocols.kafka.list_offsets cimport list_offsets_serve
from broker._native.protocols.kafka.parked_fetch cimport (
    FETCH_NOT_SERVED,
    FETCH_READY,
    FetchStatus,
    ParkedFetch,
)
from broker._native.protocols.kafka.produce cimport (
    NOT_SERVED,
    SERVED,
    SERVED_CLOSE,
    ServeStatus,
    produce_serve,
    tell_throttle,
)
from broker._native.wire.connection cimport (
    VERDICT_MORE,
    VERDICT_NO,
    VERDICT_YES,
    Connection,
    NativeProtocol,
    Verdict,
)
from broker._native.wire.frame cimport FRAME_HEAD_SIZE, frame_announced, frame_cut
from broker._native.wire.mute cimport mute, quota_of
from broker._native.wire.pending_reply cimport PendingReply
from broker._native.wire.permitted cimport permissions_of
from broker._native.wire.quota cimport NS_PER_MS, ClientQuota, percents
from broker._native.wire.reply_slot cimport ReplySlot
from broker._native.wire.request_meter cimport (
    METER_SAMPLE,
    METER_VERSIONS,
    RequestMeter,
    meter_state,
)

cdef enum:
    KEY_PRODUCE = 0
    KEY_FETCH = 1
    KEY_LIST_OFFSETS = 2
    # Of first bytes: bounds of what may be Kafka's.
    DETECTED_KEYS = 128       # above every key that exists (95 of them in Kafka 4.4)
    DETECTED_VERSIONS = 128   # Kafka 4.4 is at 18 after fifteen years
    KEY_REPLICA_FETCH = DETECTED_KEYS     # of meters: Fetch of other brokers is counted twice
    METERED_KEYS = DETECTED_KEYS + 1
    FETCH_WORK = 64           # in ordinary requests: a fetch of many partitions, at worst
    DECOMPRESSED_WORK_SHIFT = 12  # 4 KiB decompressed take as long as one


@cython.final
cdef class Kafka(NativeProtocol):
    """Kafka's protocol, in all versions."""

    cdef ApiTable apis
    cdef readonly FetchSessions sessions
    cdef readonly int32_t frame_bytes_max
    cdef RequestMeter* by_key[METERED_KEYS]
    cdef public bint leaves_all  # every request is left to Python, as a test's faults ask

    def __cinit__(self, fallback, apis, FetchSessions sessions not None, *,
                  int32_t frame_bytes_max):
        """Serve these APIs (key, min, max, first flexible version); leave others to `fallback`."""
        self.fallback = fallback
        self.sessions = sessions
        self.is_closed_idle = True
        self.frame_bytes_max = frame_bytes_max
        apis_read(apis, &self.apis)

    def __dealloc__(self):
        cdef int key
        for key in range(METERED_KEYS):
            free(self.by_key[key])

    cdef Verdict recognizes(self, const uint8_t* data, size_t size) noexcept:
        # A length, then a key and a version that are plausible.
        cdef int16_t key, version
        if size >= FRAME_HEAD_SIZE and load_int32(data) < REQUEST_HEAD_MIN:
            return VERDICT_NO
        if size < FRAME_HEAD_SIZE + 4:
            return VERDICT_MORE
        key = load_int16(data + FRAME_HEAD_SIZE)
        version = load_int16(data + FRAME_HEAD_SIZE + 2)
        if 0 <= key < DETECTED_KEYS and 0 <= version < DETECTED_VERSIONS:
            return VERDICT_YES
        return VERDICT_NO

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept:
        return frame_cut(data, size, REQUEST_HEAD_MIN, <uint32_t>self.frame_bytes_max, frame)

    cdef int64_t announced(self, const uint8_t* data, size_t size) noexcept:
        return frame_announced(data, size, <uint32_t>self.frame_bytes_max)

    cdef bint is_write(self, Cursor frame) noexcept:
        cdef int16_t key = -1
        return cursor_int16(&frame, &key) == READ_DONE and key == KEY_PRODUCE

    cdef bint is_read(self, Cursor frame) noexcept:
        cdef int16_t key = -1
        return cursor_int16(&frame, &key) == READ_DONE and (
            key == KEY_FETCH or key == KEY_LIST_OFFSETS)

    cdef void refuse(self, Connection connection, int64_t cut):
        connection.close(
            f"frame of a length that is not {REQUEST_HEAD_MIN} to {self.frame_bytes_max}")

    cdef bint serve(self, Connection connection, Cursor frame):
        cdef ClientQuota quota = None
        cdef ReplySlot* slot = NULL
        cdef RequestHead head
        cdef Permissions permissions
        cdef RequestMeter* meter
        if connection.login_ends_ms != 0 and (
                connection.poller.monotonic_ms >= connection.login_ends_ms):
            connection.protocol = self.gate
            return self.gate.serve(connection, frame)
        if envelope_read(frame, &self.apis, &head) != ENVELOPE_OK:
            connection.close("request with a key, version or header that is not served")
            return False
        meter = self.meter_of(head.api_key)
        meter_count(meter, &head)
        if self.leaves_all:
            leave(connection, &head, meter)
            return not connection.is_closed
        permissions = permissions_of(connection)
        if connection.poller.find_quota is not None:
            quota = quota_of(connection, head.client_id, head.client_id_size)
        if head.api_key == KEY_PRODUCE:
            self.serve_produce(connection, permissions, quota, &head, frame.left, meter)
        elif head.api_key == KEY_FETCH:
            self.serve_fetch(connection, permissions, quota, &head, meter)
        else:
            # Python knows where the other answers tell a throttle time.
            if head.api_key == KEY_LIST_OFFSETS and (quota is None or quota.time is None):
                slot = list_offsets_serve(connection.poller.topics, permissions, &head)
            if slot == NULL:
                leave(connection, &head, meter)
            else:
                note_meter(slot, meter, connection)
                connection.enqueue(slot)
        return not connection.is_closed

    cdef void serve_produce(self, Connection connection, Permissions permissions,
                            ClientQuota quota, RequestHead* head, size_t size,
                            RequestMeter* meter):
        cdef ReplySlot* slot = NULL
        cdef int64_t decompressed_bytes = 0, throttle_ms = 0
        cdef bint is_sample = is_sampled(meter, head)
        cdef int64_t begun_ns = 0 if quota is None and not is_sample else monotonic_ns()
        cdef ServeStatus status = produce_serve(
            connection.poller.topics, connection.poller.turn, permissions, head, meter,
            &connection.unseen, &slot, &decompressed_bytes)
        connection.poller.work += <int>(decompressed_bytes >> DECOMPRESSED_WORK_SHIFT)
        if status == NOT_SERVED:
            leave(connection, head, meter)
            return
        if is_sample:
            histogram_add(&meter.local, (monotonic_ns() - begun_ns) // 1000)
        if status == SERVED_CLOSE:
            connection.close("acks=0 produce that failed")
            return
        if quota is not None:
            throttle_ms = charge_produce(quota, size, begun_ns)
        if status == SERVED:
            if throttle_ms > 0:
                tell_throttle(slot, head, throttle_ms)
            note_meter(slot, meter, connection)
            connection.enqueue(slot)
        if throttle_ms > 0:
            mute(connection, throttle_ms)

    cdef void serve_fetch(self, Connection connection, Permissions permissions,
                          ClientQuota quota, RequestHead* head, RequestMeter* meter):
        cdef FetchStatus status = FETCH_NOT_SERVED
        cdef ParkedFetch session
        cdef int64_t begun_ns = monotonic_ns() if is_sampled(meter, head) else 0
        connection.poller.work += FETCH_WORK
        if connection.slots_head == NULL:
            session = self.sessions.begin(connection, permissions, quota, head, &status)
        if status == FETCH_NOT_SERVED:
            leave(connection, head, meter)
            return
        if session.is_of_replica:
            meter = self.meter_of(KEY_REPLICA_FETCH)
            meter_count(meter, head)
        session.meter = meter
        session.read_us = connection.poller.clock_us
        if status == FETCH_READY:
            session.send(connection)
        else:
            session.park(connection)
        if begun_ns > 0 and meter != NULL:
            histogram_add(&meter.local, (monotonic_ns() - begun_ns) // 1000)

    # ---- what is counted ------------------------------------------------------------------------

    cdef RequestMeter* meter_of(self, int16_t key) noexcept:
        # Of an API, made with its first request; NULL without memory.
        if self.by_key[key] == NULL:
            self.by_key[key] = <RequestMeter*>calloc(1, sizeof(RequestMeter))
        return self.by_key[key]

    cdef list meters(self):
        cdef int key
        return [
            (key, meter_state(self.by_key[key])) for key in range(METERED_KEYS)
            if self.by_key[key] != NULL
        ]


cdef void leave(Connection connection, RequestHead* head, RequestMeter* meter):
    # To Python.
    cdef PendingReply pending = request_hand_over(connection, head)
    if pending is not None:
        note_meter(pending.slot, meter, connection)


cdef inline int meter_place(const RequestHead* head) noexcept:
    return min(head.api_version, METER_VERSIONS - 1)


cdef inline void meter_count(RequestMeter* meter, const RequestHead* head) noexcept:
    if meter != NULL:
        meter.requests[meter_place(head)] += 1


cdef inline bint is_sampled(const RequestMeter* meter, const RequestHead* head) noexcept:
    # Whether to read the clock around a request that was counted, for its local time. Each API is
    # sampled by itself: clients may send two of them by turns.
    return meter != NULL and meter.requests[meter_place(head)] % METER_SAMPLE == 1


cdef inline void note_meter(ReplySlot* slot, RequestMeter* meter, Connection connection) noexcept:
    slot.meter = meter
    slot.read_us = connection.poller.clock_us


cdef int64_t charge_produce(ClientQuota quota, size_t size, int64_t begun_ns) noexcept:
    """Count a Produce request of so many bytes; return for how long its client has to rest."""
    cdef int64_t now_ns = monotonic_ns()
    cdef int64_t throttle_ms = 0
    if quota.writes is not None:
        throttle_ms = quota.writes.add(<double>size, now_ns // NS_PER_MS)
    if quota.time is not None:
        throttle_ms = max(
            throttle_ms, quota.time.add(percents(now_ns - begun_ns), now_ns // NS_PER_MS))
    return throttle_ms
