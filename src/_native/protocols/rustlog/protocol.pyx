"""RustLog: length-prefixed frames. Small produces and fetches are served natively.

All other requests are left to Python (protocols/rustlog), which can serve every request and is the
specification of this code.

    frame     uint32 length, 1 to 10,485,760 | payload
    payload   JSON, when it begins with { or white space; else uint8 type | fields, big-endian
    Produce   01 | string topic | uint32 partition | uint32 count | count x (uint32 length | bytes)
    Fetch     02 | string group | string topic | uint32 partition | uint64 offset | uint32 max bytes
    Ping      FF
    string    uint16 length | UTF-8

Requests are served one by one, as in the original. Only produces need not wait for each other: they
are appended in order, and answered in order.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint16_t, uint32_t, uint8_t
from libc.string cimport memchr, memcpy, memset

from broker._native.kernel.big_endian cimport store_uint32, store_uint64
from broker._native.kernel.cursor cimport (
    READ_DONE,
    Cursor,
    cursor_int64,
    cursor_take,
    cursor_uint16,
    cursor_uint32,
    load_int16,
    load_int32,
    load_uint32,
)
from broker._native.log.log_page cimport (
    PAGE_NOTHING,
    PAGE_READ,
    LogPage,
    PageStatus,
    page_read,
    page_take,
)
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.permissions cimport MAY_READ, MAY_WRITE, permits
from broker._native.log.topic_table cimport TopicEntry
from broker._native.log.turn cimport LOG_NOT_REPLICA, LOG_OFFLINE, LogStatus
from broker._native.protocols.rustlog.answer cimport (
    ANSWER_FULL,
    ANSWER_GAP,
    ANSWER_OPEN,
    FetchAnswer,
    answer_add,
    answer_begin,
    answer_finish,
)
from broker._native.protocols.rustlog.counters cimport RustLogCounters, latency_add, now_ns
from broker._native.protocols.rustlog.record_run cimport RUN_DONE, run_add
from broker._native.records.plain_batch cimport PlainBatch, plain_begin, plain_finish, plain_trim
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_OK,
    BatchInfo,
)
from broker._native.wire.connection cimport (
    VERDICT_MORE,
    VERDICT_NO,
    VERDICT_YES,
    Connection,
    NativeProtocol,
    Verdict,
)
from broker._native.wire.frame cimport FRAME_BAD, FRAME_HEAD_SIZE, frame_announced, frame_cut
from broker._native.wire.pending_reply cimport PendingReply, hand_over
from broker._native.wire.plain_append cimport (
    PLAIN_NOT_SERVED,
    PLAIN_OFFLINE,
    PlainStatus,
    plain_append,
    plain_takes,
    plain_wait,
)
from broker._native.wire.permitted cimport permissions_of
from broker._native.wire.reply_slot cimport ReplySlot, slot_free, slot_new

from broker.model import limits

cdef enum:
    KIND_PRODUCE = 0x01
    KIND_FETCH = 0x02
    KIND_LIST_TOPICS = 0x06
    KIND_METRICS = 0x09       # the last of the small ones
    KIND_PING = 0xFF
    OPEN_OBJECT = 0x7B
    # The operation that Python is called with for an invalid frame; the body is its start.
    OPERATION_REFUSE = -1
    AMBIGUOUS_FROM = 10       # bytes; a shorter frame is of no other protocol
    FIRST_TEXT = 7            # after the frame's length, the type and the length of a string
    PRODUCED_SIZE = FRAME_HEAD_SIZE + 1 + 8 + 4
    RECORD_HEAD_SIZE = 4
    STORED_HEAD_SIZE = 12     # header of a stored record, which max bytes counts
    READ_BYTES_MIN = 4 << 10
    READ_BYTES_MAX = 256 << 10
    LAST_WAS_JSON = 1         # of Connection.protocol_flags: the last frame was JSON
    READ_BYTES_SHIFT = 10     # 1 KiB of a log counts as one request

cdef uint32_t FRAME_BYTES_MAX = limits.RUSTLOG_FRAME_BYTES_MAX
cdef int64_t NATIVE_FETCH_BYTES_MAX = limits.RUSTLOG_NATIVE_FETCH_BYTES_MAX
cdef size_t RUN_BATCH_BYTES_MAX = limits.MESSAGE_BYTES_MAX
cdef uint32_t RUN_RECORDS_PER_BATCH = limits.RUN_RECORDS_PER_BATCH

# Each is used within one call only.
cdef PlainBatch batch
cdef FetchAnswer answer
cdef LogPage page
memset(&batch, 0, sizeof(batch))
memset(&answer, 0, sizeof(answer))
memset(&page, 0, sizeof(page))


cdef bint begins_json(const uint8_t* data, size_t size) noexcept nogil:
    # A tab is also the type of MetricsFetch, which has no fields.
    cdef size_t i
    for i in range(size):
        if data[i] == OPEN_OBJECT:
            return True
        if memchr(b" \t\r\n", data[i], 4) == NULL:
            break
    return size > 0 and data[0] != KIND_METRICS and memchr(b" \r\n", data[0], 3) != NULL


cdef inline bint read_string(Cursor* cursor, const uint8_t** text, uint16_t* size) noexcept:
    if cursor_uint16(cursor, size) != READ_DONE:
        return False
    text[0] = cursor_take(cursor, size[0])
    return text[0] != NULL


cdef inline PartitionLog find_log(Connection connection, const uint8_t* name, uint16_t size,
                                  uint32_t partition, uint8_t bits):
    # Returns the log of a partition, if it is here and its client may do this with the topic.
    cdef TopicEntry entry = connection.poller.topics.find_name(name, size)
    if entry is None or partition > INT32_MAX or not permits(
            permissions_of(connection), entry, bits):
        return None
    return entry.log_of(<int32_t>partition)


cdef enum:
    LOG_STATUSES = LOG_NOT_REPLICA + 1

# The answers to a produce whose log fails, by LogStatus: whole frames.
cdef struct Failures:
    const uint8_t* data[LOG_STATUSES]
    uint32_t size[LOG_STATUSES]
    uint32_t size_max


cdef void fail_produce(ReplySlot* slot, uint32_t place, LogStatus status) noexcept nogil:
    # A SlotFail.
    cdef const Failures* failures = <const Failures*>slot.failed_end
    memcpy(slot.data, failures.data[<int>status], failures.size[<int>status])
    slot.size = failures.size[<int>status]
    slot.fail = NULL


@cython.final
cdef class RustLog(NativeProtocol):
    """RustLog's protocol, JSON and binary."""

    cdef readonly RustLogCounters counters
    cdef list answers                     # owns what `failures` points to
    cdef Failures failures
    cdef uint8_t refused[5]               # the first bytes of an invalid frame
    cdef size_t refused_size

    def __cinit__(self, fallback, RustLogCounters counters not None, *,
                  bytes write_failed not None, write_refused=None):
        """Leave all other requests to `fallback`.

        `write_failed` is the binary answer, without its length, to a produce whose log fails, and
        `write_refused` has those for other results, by their LogState.
        """
        cdef dict refused = write_refused or {}
        cdef int status
        self.fallback = fallback
        self.counters = counters
        self.serves_half_closed = self.is_metered = True
        self.answers = []
        for status in range(LOG_STATUSES):
            answer = refused.get(status, write_failed)
            self.answers.append(len(answer).to_bytes(FRAME_HEAD_SIZE, "big") + answer)
            self.failures.data[status] = <const uint8_t*>PyBytes_AS_STRING(self.answers[status])
            self.failures.size[status] = <uint32_t>len(self.answers[status])
            self.failures.size_max = max(self.failures.size_max, self.failures.size[status])

    cdef Verdict recognizes(self, const uint8_t* data, size_t size) noexcept:
        # A length, then JSON, or the type of a request. A key that Kafka does not have may begin
        # like a type: 999 is 03 E7, -7 is FF F9. So in a frame that is long enough for Kafka a type
        # with fields must be followed by a string that fits, and another one by nothing.
        cdef uint8_t kind
        cdef int32_t text_size
        if size < FRAME_HEAD_SIZE:
            return VERDICT_MORE
        if load_int32(data) == 0:
            return VERDICT_YES      # of no other protocol; it is answered with an error
        if size == FRAME_HEAD_SIZE:
            return VERDICT_MORE
        kind = data[FRAME_HEAD_SIZE]
        if memchr(b"{ \t\r\n", kind, 5) != NULL:
            return VERDICT_YES
        if kind != KIND_PING and not 0 < kind <= KIND_METRICS:
            return VERDICT_NO
        if load_int32(data) < AMBIGUOUS_FROM:
            return VERDICT_YES
        if kind == KIND_PING or kind == KIND_LIST_TOPICS:
            return VERDICT_NO       # they have no fields; METRICS, a tab, is taken for JSON above
        if size < FIRST_TEXT:
            return VERDICT_MORE
        text_size = <uint16_t>load_int16(data + FIRST_TEXT - 2)
        return VERDICT_YES if text_size <= load_int32(data) - 3 else VERDICT_NO

    cdef int64_t cut(self, const uint8_t* data, size_t size, Cursor* frame) noexcept:
        cdef int64_t taken = frame_cut(data, size, 1, FRAME_BYTES_MAX, frame)
        if taken == FRAME_BAD:
            # `refuse` distinguishes JSON from binary by the bytes that there are.
            self.refused_size = FRAME_HEAD_SIZE
            if load_uint32(data) > 0:
                self.refused_size = min(size, sizeof(self.refused))
            memcpy(self.refused, data, self.refused_size)
        return taken

    cdef int64_t announced(self, const uint8_t* data, size_t size) noexcept:
        return frame_announced(data, size, FRAME_BYTES_MAX)

    cdef void refuse(self, Connection connection, int64_t cut):
        cdef Cursor head
        cdef bint is_json = connection.protocol_flags & LAST_WAS_JSON > 0
        head.next = self.refused
        head.left = FRAME_HEAD_SIZE
        if self.refused_size > FRAME_HEAD_SIZE:
            is_json = begins_json(self.refused + FRAME_HEAD_SIZE, 1)
        self.serve_in_python(connection, head, OPERATION_REFUSE, is_json)

    cdef bint is_write(self, Cursor frame) noexcept:
        return frame.left > 0 and frame.next[0] == KIND_PRODUCE

    cdef bint serve(self, Connection connection, Cursor frame):
        cdef Cursor body = frame
        cdef uint8_t kind = cursor_take(&body, 1)[0]
        cdef bint is_json = begins_json(frame.next, frame.left), is_served = False
        cdef uint8_t[FRAME_HEAD_SIZE + 1] pong
        connection.protocol_flags = LAST_WAS_JSON if is_json else 0
        if kind == KIND_PRODUCE:
            is_served = self.serve_produce(connection, body)
        elif kind == KIND_FETCH:
            is_served = self.serve_fetch(connection, body)
        elif kind == KIND_PING:
            store_uint32(pong, 1)
            pong[FRAME_HEAD_SIZE] = KIND_PING
            connection.reply(pong, sizeof(pong))
            is_served = True
        elif kind == KIND_METRICS and not is_json:
            self.count_connections(connection)
        if not is_served:
            self.serve_in_python(connection, frame, kind, is_json)
        return not connection.is_closed

    cdef void serve_in_python(
            self, Connection connection, Cursor frame, int operation, bint is_json):
        cdef PendingReply pending = hand_over(connection, frame)
        if pending is not None:
            pending.operation = operation
            pending.version = is_json
            pending.head.size = FRAME_HEAD_SIZE

    cdef void count_connections(self, Connection connection):
        cdef Connection each
        cdef int64_t count = 0
        for each in connection.poller.connections.values():
            count += each.protocol is self
        self.counters.active_connections = count

    cdef void record_latency(self, int64_t begun_ns) noexcept:
        latency_add(&self.counters.produces, now_ns() - begun_ns)

    cdef bint serve_produce(self, Connection connection, Cursor body):
        # False: nothing was changed, and Python serves it.
        cdef const uint8_t* topic
        cdef uint16_t topic_size = 0
        cdef uint32_t partition = 0, count = 0, left
        cdef PartitionLog log
        cdef int64_t base_offset = -1
        cdef size_t payload, batch_max
        cdef int64_t begun_ns = now_ns()
        cdef PlainStatus status
        cdef ReplySlot* slot
        if not read_string(&body, &topic, &topic_size) or (
                cursor_uint32(&body, &partition) != READ_DONE
                or cursor_uint32(&body, &count) != READ_DONE):
            return False
        log = find_log(connection, topic, topic_size, partition, MAY_WRITE)
        if not plain_takes(log, False) or count == 0 or count > body.left // RECORD_HEAD_SIZE:
            return False
        batch_max = min(<size_t>log.batch_bytes_max, RUN_BATCH_BYTES_MAX)
        if body.left > batch_max or count > RUN_RECORDS_PER_BATCH:
            return False
        left = count
        payload = body.left
        if not plain_begin(&batch, log.turn.now_ms, body.left + 4 * <size_t>count):
            return False
        if run_add(&body, &left, &batch, batch_max, RUN_RECORDS_PER_BATCH) != RUN_DONE:
            plain_trim(&batch)
            return False
        payload -= body.left + RECORD_HEAD_SIZE * <size_t>count
        plain_finish(&batch)
        slot = slot_new(max(<uint32_t>PRODUCED_SIZE, self.failures.size_max), 1)
        if slot == NULL:
            return False
        status = plain_append(log, &batch, False, &base_offset)
        plain_trim(&batch)
        if status == PLAIN_NOT_SERVED:
            slot_free(slot)
            return False
        if status == PLAIN_OFFLINE:
            slot_free(slot)
            connection.reply(
                self.failures.data[<int>LOG_OFFLINE], self.failures.size[<int>LOG_OFFLINE])
            return True
        store_uint32(slot.data, PRODUCED_SIZE - FRAME_HEAD_SIZE)
        slot.data[FRAME_HEAD_SIZE] = KIND_PRODUCE
        store_uint64(slot.data + FRAME_HEAD_SIZE + 1, base_offset)
        store_uint32(slot.data + FRAME_HEAD_SIZE + 9, count)
        slot.size = PRODUCED_SIZE
        slot.begun_ns = begun_ns
        slot.failed_end = <const uint8_t*>&self.failures
        slot.fail = fail_produce
        plain_wait(log, slot, base_offset + count)
        connection.enqueue(slot)
        self.counters.messages_produced += count
        self.counters.bytes_in += payload
        return True

    cdef bint serve_fetch(self, Connection connection, Cursor body):
        # False: Python serves it, since it has a group, whose offset must be looked up, or is
        # unusual.
        cdef const uint8_t* topic
        cdef uint16_t group_size = 0, topic_size = 0
        cdef uint32_t partition = 0, bytes_max = 0
        cdef int64_t offset = 0, end, next_offset, begun_ns = now_ns()
        cdef PartitionLog log
        if (cursor_uint16(&body, &group_size) != READ_DONE or group_size > 0
                or not read_string(&body, &topic, &topic_size)
                or cursor_uint32(&body, &partition) != READ_DONE
                or cursor_int64(&body, &offset) != READ_DONE
                or cursor_uint32(&body, &bytes_max) != READ_DONE or offset < 0):
            return False
        log = find_log(connection, topic, topic_size, partition, MAY_READ)
        if log is None or log.is_loading or log.is_offline or log.is_deleted or (
                offset < log.log_start_offset):
            return False
        end = min(log.high_watermark, log.transactions.first_undecided)
        if bytes_max > NATIVE_FETCH_BYTES_MAX and (
                log.visible_bytes(offset, end) > NATIVE_FETCH_BYTES_MAX):
            return False
        connection.poller.work += <int>(min(<int64_t>bytes_max, NATIVE_FETCH_BYTES_MAX)
                                        >> READ_BYTES_SHIFT)
        answer_begin(&answer, False, offset, bytes_max)
        if bytes_max > 0 and offset < end and not fill(log, offset, end, bytes_max):
            return False
        if answer.status not in (ANSWER_OPEN, ANSWER_FULL, ANSWER_GAP) or answer.data == NULL:
            return False
        next_offset = answer.next_offset
        if bytes_max > 0 and answer.count == 0 and answer.status == ANSWER_OPEN:
            next_offset = max(offset, end)      # there are no records up to the end
        answer_finish(&answer, next_offset)
        connection.reply(answer.data, answer.size)
        self.counters.messages_fetched += answer.count
        self.counters.bytes_out += answer.payload_bytes
        latency_add(&self.counters.fetches, now_ns() - begun_ns)
        return True


cdef bint fill(PartitionLog log, int64_t offset, int64_t end, uint32_t bytes_max):
    # Adds the records of plain batches. False: there is another batch, or too much to read.
    cdef int64_t left = NATIVE_FETCH_BYTES_MAX
    cdef int64_t size = min(max(<int64_t>bytes_max, READ_BYTES_MIN), READ_BYTES_MAX)
    cdef PageStatus status
    while answer.status == ANSWER_OPEN and offset < end:
        status = page_read(&page, log, offset, end, size, left)
        if status == PAGE_NOTHING:
            return True
        if status != PAGE_READ:
            return False        # Python gets the same status, and takes a failed log offline
        left -= <int64_t>page.size
        if not add_batches():
            return False
        offset = page.next_offset
    return True


cdef bint add_batches() noexcept:
    cdef BatchInfo info
    cdef Cursor records
    while page.batches.left > 0 and answer.status == ANSWER_OPEN:
        if page_take(&page, &info, &records) != BATCH_OK:
            return False
        if info.attributes & (ATTRIBUTE_CODEC | ATTRIBUTE_CONTROL | ATTRIBUTE_TRANSACTIONAL):
            return False
        answer_add(&answer, &info, records)
    return True
