"""Produce, versions 0-13, natively: known partitions, valid batches, admitted transactions.

Up to version 2 it converts uncompressed message sets (old_produce.pyx). A transaction is admitted
once the coordinator has added the partition to it.

The Python handler (broker/protocols/kafka/handlers/produce.py) is the specification of this code
and answers whatever is unusual here. Its phases are two walks over the request (ProduceRequest.json
of Kafka 4.3). The first one reads and checks everything and changes nothing; if it finds anything
unusual, the whole request is NOT_SERVED. It needs no order of errors, so it checks in the order of
cost: the cheap fields of the log and of the batch's header first, then the bytes of the records,
then the producer's sequence. The second walk appends and writes the reply, whose acknowledgements
then wait for the logs.
"""

from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from broker._native.kernel.big_endian cimport store_uint16, store_uint32, store_uint64
from broker._native.kernel.cursor cimport (
    READ_DONE,
    Cursor,
    cursor_int16,
    cursor_int32,
    cursor_take,
)
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.permissions cimport MAY_WRITE, permits
from broker._native.log.producer_state cimport ProducerBatch
from broker._native.log.topic_table cimport TopicEntry, new_request_mark
from broker._native.log.turn cimport (
    LOG_FULL,
    LOG_NOT_LED,
    LOG_OK,
    LOG_TIMED_OUT,
    LOG_TOO_FEW_REPLICAS,
    AckWaiter,
    LogStatus,
    may_acknowledge,
)
from broker._native.messages.error_codes cimport (
    ERROR_KAFKA_STORAGE_ERROR,
    ERROR_NOT_ENOUGH_REPLICAS,
    ERROR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ERROR_NOT_LEADER_OR_FOLLOWER,
    ERROR_REQUEST_TIMED_OUT,
)
from broker._native.messages.fields cimport (
    TOPIC_ID_SIZE,
    put_count,
    put_string,
    put_tags,
    read_count,
    read_records,
    read_string,
    read_tags,
)
from broker._native.protocols.kafka.old_produce cimport old_set_take, old_sets_begin
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_HEADER_SIZE,
    BATCH_OK,
    BatchInfo,
    batch_validate,
)
from broker._native.records.record_checks cimport (
    all_have_keys, compressed_records_are_valid,
)
from broker._native.wire.reply_slot cimport SlotFail, slot_new
from broker._native.wire.request_meter cimport meter_error
from broker._native.wire.unseen_writes cimport unseen_add

from broker.model import limits

cdef enum:
    PARTS_MAX = 1024
    REPLY_PART_SIZE = 4 + 2 + 8 + 8 + 8 + 4 + 2 + 1
    REPLY_FIXED_SIZE = 4 + 4 + 1 + 5 + 4 + 1
    VERSION_THROTTLE = 1
    VERSION_APPEND_TIME = 2
    VERSION_BATCHES = 3       # magic 2, transactional ids
    VERSION_LOG_START = 5
    VERSION_TOPIC_ID = 13
    CODEC_ZSTD = 4
    ACKS_ALL = -1
    ACKS_LEADER = 1

assert PARTS_MAX == limits.NATIVE_PRODUCE_PARTITIONS_MAX

# One partition of the request that is being served. All are used within one call.
cdef struct Part:
    void* log                 # PartitionLog, borrowed: the topic table holds it
    uint8_t* batch
    BatchInfo info
    bint is_converted         # from a message set, and valid: `info` has been read
    bint is_duplicate
    ProducerBatch original
    AckWaiter* waiter         # NULL: nothing to wait for

cdef struct Topic:
    const uint8_t* name       # or the topic id
    int32_t name_size
    int32_t part_count

cdef Part parts[PARTS_MAX]
cdef Topic requested[PARTS_MAX]
cdef uint64_t request_mark = 0
cdef int16_t acks = 0             # of that request
cdef int64_t due_ms = 0           # of Turn.steady_ms: its acknowledgements wait no longer
cdef int64_t decompress_left = 0  # what may still be decompressed for the request at hand

cdef int64_t DECOMPRESSED_MAX = limits.PRODUCE_DECOMPRESSED_BYTES_MAX


cdef bint records_are_taken(PartitionLog log, const uint8_t* batch, const BatchInfo* info) noexcept:
    # Whether a validated batch has records that its log accepts, as far as is checked here.
    cdef Cursor records
    if info.attributes & ATTRIBUTE_CODEC:
        return compressed_records_are_valid(
            log.turn.decompress_sent, batch, info, log.needs_keys, &decompress_left)
    if not log.needs_keys:
        return True
    records.next = batch + BATCH_HEADER_SIZE
    records.left = info.size - BATCH_HEADER_SIZE
    return all_have_keys(records, info.record_count)


cdef bint check_part(PartitionLog log, const uint8_t* records, int32_t size, RequestHead* head,
                     bint has_transaction, Part* part) noexcept:
    # Whether the native path can append this: nothing about the log or the batch is unusual.
    if log is None or log.is_loading or log.is_offline or log.is_deleted or not log.is_plain:
        return False
    if log.disk.refuses_clients or not may_acknowledge(log.turn, log.broker_epoch):
        return False  # Python answers with the error
    if log.lacks_replicas and acks == ACKS_ALL:
        return False
    if log.request_mark == request_mark:
        return False  # the same partition twice
    log.request_mark = request_mark
    if size <= 0 or size > log.batch_bytes_max:
        return False
    if not part.is_converted and batch_validate(records, <size_t>size, &part.info) != BATCH_OK:
        return False
    if (part.info.attributes & ATTRIBUTE_TRANSACTIONAL > 0) != has_transaction or (
            head.api_version < 7 and part.info.attributes & ATTRIBUTE_CODEC == CODEC_ZSTD):
        return False
    part.log = <void*>log
    part.batch = <uint8_t*>records
    return log.accepts(&part.info, &part.original, &part.is_duplicate) and (
        records_are_taken(log, records, &part.info))


cdef bint read_topic(Cursor* cursor, RequestHead* head, TopicTable topics, Permissions permissions,
                     bint has_transaction, Topic* topic, int32_t* part_count) noexcept:
    cdef int32_t partition = 0, count = 0, size = 0, _i
    cdef const uint8_t* records
    cdef TopicEntry entry
    cdef Part* part
    if head.api_version >= VERSION_TOPIC_ID:
        topic.name = cursor_take(cursor, TOPIC_ID_SIZE)
        topic.name_size = TOPIC_ID_SIZE
        if topic.name == NULL:
            return False
        entry = topics.find_id(topic.name)
    else:
        if not read_string(cursor, head.is_flexible, &topic.name, &topic.name_size) or (
                topic.name == NULL):
            return False
        entry = topics.find_name(topic.name, <size_t>topic.name_size)
    if entry is None or entry.request_mark == request_mark:
        return False  # unknown, or named twice
    if not permits(permissions, entry, MAY_WRITE):
        return False
    entry.request_mark = request_mark
    if not read_count(cursor, head.is_flexible, &count):
        return False
    if count < 1 or count > PARTS_MAX - part_count[0]:
        return False
    topic.part_count = count
    for _i in range(count):
        if cursor_int32(cursor, &partition) != READ_DONE or not read_records(
                cursor, head.is_flexible, &records, &size) or not read_tags(
                cursor, head.is_flexible):
            return False
        part = &parts[part_count[0]]
        part.is_converted = head.api_version < VERSION_BATCHES
        if part.is_converted and not old_set_take(&records, &size, &part.info):
            return False
        if not check_part(entry.log_of(partition), records, size, head, has_transaction, part):
            return False
        part_count[0] += 1
    return read_tags(cursor, head.is_flexible)


cdef inline uint8_t* put_topic(uint8_t* at, RequestHead* head, Topic* topic) noexcept:
    if head.api_version < VERSION_TOPIC_ID:
        at = put_string(at, head.is_flexible, topic.name, topic.name_size)
    else:
        memcpy(at, topic.name, TOPIC_ID_SIZE)
        at += TOPIC_ID_SIZE
    return put_count(at, head.is_flexible, topic.part_count)


cdef inline uint8_t* put_part(uint8_t* at, RequestHead* head, int32_t partition, int16_t error,
                              int64_t base_offset, int64_t log_start_offset) noexcept:
    store_uint32(at, partition)
    store_uint16(at + 4, error)
    store_uint64(at + 6, base_offset)
    at += 14
    if head.api_version >= VERSION_APPEND_TIME:
        store_uint64(at, -1)             # the topic has create time
        at += 8
    if head.api_version >= VERSION_LOG_START:
        store_uint64(at, log_start_offset)
        at += 8
    if head.api_version >= 8:
        at = put_count(at, head.is_flexible, 0)      # record errors
        if head.is_flexible:
            at[0] = 0                                # error message: null
            at[1] = 0                                # tags
            at += 2
        else:
            store_uint16(at, <uint32_t>0xFFFF)
            at += 2
    return at


cdef inline int16_t refusal_of(LogStatus status, RequestHead* head) noexcept nogil:
    # The error of a batch that was not appended; every producer retries on each of them.
    if status == LOG_FULL:
        return ERROR_NOT_ENOUGH_REPLICAS     # as in protocols/kafka/errors.py
    # Clients of Kafka 0.8 to 0.10 do not know the code that was added later.
    if status == LOG_NOT_LED or head.api_version < VERSION_BATCHES:
        return ERROR_NOT_LEADER_OR_FOLLOWER
    return ERROR_KAFKA_STORAGE_ERROR


cdef inline void fail_part(ReplySlot* slot, uint32_t place, LogStatus status,
                           int16_t storage) noexcept nogil:
    # Changes what put_part has written: the error and the base offset.
    cdef uint8_t* error_at = slot.data + place
    cdef int16_t error = storage
    if status == LOG_FULL or status == LOG_TOO_FEW_REPLICAS:
        error = ERROR_NOT_ENOUGH_REPLICAS_AFTER_APPEND
    elif status == LOG_TIMED_OUT:
        error = ERROR_REQUEST_TIMED_OUT
    elif status == LOG_NOT_LED:
        error = ERROR_NOT_LEADER_OR_FOLLOWER
    meter_error(slot.meter, error)
    store_uint16(error_at, error)
    store_uint64(error_at + 2, -1)


# One per layout of a partition in the reply. Each is a SlotFail; `place` is that of the error.

cdef void fail_from_log_start(ReplySlot* slot, uint32_t place, LogStatus status) noexcept nogil:
    fail_part(slot, place, status, ERROR_KAFKA_STORAGE_ERROR)
    store_uint64(slot.data + place + 18, -1)     # no log start offset


cdef void fail_from_batches(ReplySlot* slot, uint32_t place, LogStatus status) noexcept nogil:
    fail_part(slot, place, status, ERROR_KAFKA_STORAGE_ERROR)


cdef void fail_oldest(ReplySlot* slot, uint32_t place, LogStatus status) noexcept nogil:
    fail_part(slot, place, status, ERROR_NOT_LEADER_OR_FOLLOWER)


cdef inline SlotFail fail_of(RequestHead* head) noexcept nogil:
    if head.api_version >= VERSION_LOG_START:
        return fail_from_log_start
    return fail_from_batches if head.api_version >= VERSION_BATCHES else fail_oldest


cdef bint append_part(Part* part, UnseenWrites* unseen, ReplySlot* slot, uint8_t** at,
                      RequestHead* head) noexcept:
    # Appends to one partition and answers, or without a slot (acks=0) notes the write. False: the
    # disk has failed or is full, or the broker may not lead the partition any more.
    cdef PartitionLog log = <PartitionLog>part.log
    cdef AckWaiter* waiter
    cdef int64_t base_offset = -1
    cdef int64_t end_offset
    cdef LogStatus status = LOG_OK
    cdef int16_t error
    part.waiter = NULL
    if part.is_duplicate:
        base_offset = part.original.base_offset
        end_offset = base_offset + part.original.last_offset_delta + 1
    else:
        status = log.append_batch(part.batch, &part.info, &base_offset)
        end_offset = base_offset + part.info.last_offset_delta + 1
    if status != LOG_OK:
        log.failed_writes += 1
        log.rejected_bytes += <uint64_t>part.info.size
    if slot == NULL:
        return status == LOG_OK and (
            log.high_watermark >= end_offset or unseen_add(unseen, log, end_offset))
    if status == LOG_OK:
        waiter = part.waiter = &slot.waiters[slot.waiting]
        waiter.offset = end_offset
        waiter.due_ms = due_ms
        waiter.owner = slot
        waiter.place = <uint32_t>(at[0] - slot.data) + 4
        slot.waiting += 1
        at[0] = put_part(at[0], head, log.partition, 0, base_offset, log.log_start_offset)
        return True
    error = refusal_of(status, head)
    meter_error(slot.meter, error)
    at[0] = put_part(at[0], head, log.partition, error, -1, -1)
    return False


cdef ServeStatus produce_serve(TopicTable topics, Turn turn, Permissions permissions,
                               RequestHead* head, RequestMeter* meter, UnseenWrites* unseen,
                               ReplySlot** slot, int64_t* decompressed_bytes) noexcept:
    """Serve one request whole, or not at all. `decompressed_bytes`: of its batches,
    see record_checks.
    """
    global decompress_left
    cdef ServeStatus status
    decompress_left = DECOMPRESSED_MAX
    status = serve_whole(topics, turn, permissions, head, meter, unseen, slot)
    decompressed_bytes[0] = DECOMPRESSED_MAX - decompress_left
    return status


cdef ServeStatus serve_whole(TopicTable topics, Turn turn, Permissions permissions,
                             RequestHead* head, RequestMeter* meter, UnseenWrites* unseen,
                             ReplySlot** slot) noexcept:
    global request_mark, acks, due_ms
    cdef Cursor cursor = head.body
    cdef const uint8_t* transactional_id = NULL
    cdef int32_t size = 0, timeout_ms = 0, topic_count = 0, part_count = 0, i
    cdef uint32_t reply_size = REPLY_FIXED_SIZE
    if head.api_version < VERSION_BATCHES:
        old_sets_begin()
    elif not read_string(&cursor, head.is_flexible, &transactional_id, &size):
        return NOT_SERVED
    if transactional_id != NULL and permissions is not None and (
            not permissions.allows_transaction(transactional_id, size)):
        return NOT_SERVED
    if (cursor_int16(&cursor, &acks) != READ_DONE or acks < -1 or acks > 1
            or cursor_int32(&cursor, &timeout_ms) != READ_DONE
            or not read_count(&cursor, head.is_flexible, &topic_count)
            or topic_count < 1 or topic_count > PARTS_MAX):
        return NOT_SERVED
    request_mark = new_request_mark()
    due_ms = turn.steady_ms + max(timeout_ms, 1)
    for i in range(topic_count):
        if not read_topic(&cursor, head, topics, permissions, transactional_id != NULL,
                          &requested[i], &part_count):
            return NOT_SERVED
        reply_size += <uint32_t>requested[i].name_size + 5 + 5 + 1
    if not read_tags(&cursor, head.is_flexible):
        return NOT_SERVED
    if acks == 0:
        return append_silently(head, unseen, part_count)
    slot[0] = slot_new(reply_size + <uint32_t>part_count * REPLY_PART_SIZE, part_count)
    if slot[0] == NULL:
        return SERVED_CLOSE
    slot[0].meter = meter    # counts errors, also of waits that end at once
    append_and_answer(head, topic_count, slot[0], unseen)
    return SERVED


cdef ServeStatus append_silently(
        RequestHead* head, UnseenWrites* unseen, int32_t part_count) noexcept:
    cdef bint is_good = True
    cdef int32_t i
    for i in range(part_count):
        is_good = append_part(&parts[i], unseen, NULL, NULL, head) and is_good
    return SERVED_SILENTLY if is_good else SERVED_CLOSE


cdef void append_and_answer(
        RequestHead* head, int32_t topic_count, ReplySlot* slot, UnseenWrites* unseen) noexcept:
    cdef uint8_t* at = slot.data + 8
    cdef int32_t part = 0, i, _j
    slot.fail = fail_of(head)
    store_uint32(slot.data + 4, head.correlation_id)
    at = put_tags(at, head.is_flexible)      # tags of the response header
    at = put_count(at, head.is_flexible, topic_count)
    for i in range(topic_count):
        at = put_topic(at, head, &requested[i])
        for _j in range(requested[i].part_count):
            append_part(&parts[part], NULL, slot, &at, head)
            part += 1
        at = put_tags(at, head.is_flexible)
    if head.api_version >= VERSION_THROTTLE:
        store_uint32(at, 0)
        at += 4
    at = put_tags(at, head.is_flexible)
    slot.size = <uint32_t>(at - slot.data)
    store_uint32(slot.data, slot.size - 4)
    # Linked only now: a wait may end at once, and the reply must be complete by then.
    for i in range(part):
        if parts[i].waiter == NULL:
            continue
        if acks == ACKS_LEADER and (<PartitionLog>parts[i].log).is_replicated:
            # Without memory for the note, a read may miss it.
            unseen_add(unseen, <PartitionLog>parts[i].log, parts[i].waiter.offset)
            (<PartitionLog>parts[i].log).wait_local(parts[i].waiter)
        else:
            (<PartitionLog>parts[i].log).wait(parts[i].waiter)


cdef void tell_throttle(ReplySlot* slot, RequestHead* head, int64_t throttle_ms) noexcept:
    """Change the throttle time of a reply, which is its last field; the first version has none."""
    cdef uint32_t tags = 1 if head.is_flexible else 0
    if head.api_version >= VERSION_THROTTLE:
        store_uint32(slot.data + slot.size - tags - 4, <uint32_t>throttle_ms)
