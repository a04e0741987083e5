"""ListOffsets, versions 1-11, for the frequent requests: the first and last offsets of partitions.

    request      int32 replica | v2 int8 isolation | [topics] | v10 int32 timeout | tags
      topic      name | [partitions] | tags
      partition  int32 index | v4 int32 leader epoch | int64 timestamp | tags
    response     v2 int32 throttle | [topics] | tags
      topic      name | [partitions] | tags
      partition  int32 index | int16 error | int64 timestamp | int64 offset | v4 int32 leader epoch
                 | tags

Spark's Kafka source asks for both with every 500 records. Unusual requests, and searches by
timestamp, are left to the Python handler, which is the specification of this code. Nothing is
changed here, so the answer is written while the request is read.

Source: ListOffsetsRequest.json and ListOffsetsResponse.json of Kafka 4.3; KIP-79, KIP-320.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from broker._native.kernel.big_endian cimport store_uint16, store_uint32, store_uint64
from broker._native.kernel.cursor cimport (
    READ_DONE,
    Cursor,
    cursor_int8,
    cursor_int32,
    cursor_int64,
)
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.permissions cimport MAY_DESCRIBE, permits
from broker._native.log.topic_table cimport TopicEntry, new_request_mark
from broker._native.messages.fields cimport (
    put_count,
    put_string,
    put_tags,
    read_count,
    read_string,
    read_tags,
)
from broker._native.wire.reply_slot cimport slot_new

from broker.model import limits

cdef enum:
    ANSWER_SIZE = 16 << 10
    TOPIC_FIXED_SIZE = 5 + 5 + 1          # without its name
    PARTITION_SIZE = 4 + 2 + 8 + 8 + 4 + 1
    END_SIZE = 1
    VERSION_ONE_OFFSET = 1
    VERSION_ISOLATION = 2
    VERSION_EPOCH = 4
    VERSION_TIMEOUT = 10
    LATEST = -1
    EARLIEST = -2

assert ANSWER_SIZE == limits.NATIVE_LIST_OFFSETS_ANSWER_BYTES_MAX

cdef uint8_t answer[ANSWER_SIZE]          # to the request that is being served


cdef bint fits(const uint8_t* at, int64_t size) noexcept:
    return size <= &answer[0] + ANSWER_SIZE - END_SIZE - at


cdef int32_t epoch_of(PartitionLog log, int64_t offset):
    # Returns the leader epoch of an offset, or of the next record; -1: the log does not know it.
    cdef Py_ssize_t i
    if log.leader_epoch == 0:
        return 0
    for i in range(len(log.epochs) - 1, -1, -1):
        epoch, start = log.epochs[i]
        if start <= offset:
            return epoch
    return -1


cdef uint8_t* put_partition(uint8_t* at, Cursor* cursor, RequestHead* head, TopicEntry topic,
                            bint is_committed, uint64_t mark):
    # Reads a partition of the request and writes its answer. NULL: left to Python.
    cdef int32_t partition = 0, known_epoch = -1, epoch
    cdef int64_t timestamp = 0, offset
    cdef PartitionLog log
    if cursor_int32(cursor, &partition) != READ_DONE:
        return NULL
    if head.api_version >= VERSION_EPOCH and cursor_int32(cursor, &known_epoch) != READ_DONE:
        return NULL
    if cursor_int64(cursor, &timestamp) != READ_DONE or not read_tags(cursor, head.is_flexible):
        return NULL
    log = topic.log_of(partition)
    if (log is None or log.is_loading or log.is_offline or log.is_deleted
            or log.is_follower or log.request_mark == mark):
        return NULL
    log.request_mark = mark
    if known_epoch not in (-1, log.leader_epoch):
        return NULL
    if timestamp == LATEST:
        if not log.leads_caught_up():
            return NULL
        epoch = log.leader_epoch
        offset = log.high_watermark
        if is_committed and log.transactions.first_undecided < offset:
            offset = log.transactions.first_undecided
    elif timestamp == EARLIEST:
        offset = log.log_start_offset
        epoch = epoch_of(log, offset)
        if epoch < 0:
            return NULL
    else:
        return NULL
    store_uint32(at, partition)
    store_uint16(at + 4, 0)
    store_uint64(at + 6, -1)              # the timestamp: of no record
    store_uint64(at + 14, offset)
    at += 22
    if head.api_version >= VERSION_EPOCH:
        store_uint32(at, epoch)
        at += 4
    return put_tags(at, head.is_flexible)


cdef uint8_t* put_topic(uint8_t* at, Cursor* cursor, RequestHead* head, TopicTable topics,
                        Permissions permissions, bint is_committed, uint64_t mark):
    cdef const uint8_t* name
    cdef int32_t size = 0, count = 0, _i
    cdef TopicEntry topic
    if not read_string(cursor, head.is_flexible, &name, &size) or name == NULL:
        return NULL
    topic = topics.find_name(name, <size_t>size)
    if topic is None or topic.request_mark == mark or not permits(
            permissions, topic, MAY_DESCRIBE):
        return NULL
    topic.request_mark = mark
    if not read_count(cursor, head.is_flexible, &count) or count < 1 or not fits(
            at, TOPIC_FIXED_SIZE + size + <int64_t>count * PARTITION_SIZE):
        return NULL
    at = put_string(at, head.is_flexible, name, <uint32_t>size)
    at = put_count(at, head.is_flexible, <uint32_t>count)
    for _i in range(count):
        at = put_partition(at, cursor, head, topic, is_committed, mark)
        if at == NULL:
            return NULL
    if not read_tags(cursor, head.is_flexible):
        return NULL
    return put_tags(at, head.is_flexible)


cdef uint8_t* put_answer(RequestHead* head, TopicTable topics, Permissions permissions):
    # Reads the request and writes the answer; returns its end. NULL: left to Python.
    cdef Cursor cursor = head.body
    cdef int32_t replica = 0, count = 0, timeout_ms = 0, _i
    cdef int8_t isolation = 0
    cdef uint8_t* at = &answer[8]
    cdef uint64_t mark = new_request_mark()
    if head.api_version < VERSION_ONE_OFFSET or cursor_int32(&cursor, &replica) != READ_DONE:
        return NULL
    if replica >= 0:
        return NULL        # a replica gets other offsets
    if head.api_version >= VERSION_ISOLATION and cursor_int8(&cursor, &isolation) != READ_DONE:
        return NULL
    if not read_count(&cursor, head.is_flexible, &count) or count < 1:
        return NULL
    store_uint32(&answer[4], head.correlation_id)
    at = put_tags(at, head.is_flexible)          # tags of the response header
    if head.api_version >= VERSION_ISOLATION:
        store_uint32(at, 0)               # not throttled
        at += 4
    at = put_count(at, head.is_flexible, <uint32_t>count)
    for _i in range(count):
        at = put_topic(at, &cursor, head, topics, permissions, isolation != 0, mark)
        if at == NULL:
            return NULL
    if head.api_version >= VERSION_TIMEOUT and cursor_int32(&cursor, &timeout_ms) != READ_DONE:
        return NULL
    if not read_tags(&cursor, head.is_flexible):
        return NULL
    return put_tags(at, head.is_flexible)


cdef ReplySlot* list_offsets_serve(
        TopicTable topics, Permissions permissions, RequestHead* head) noexcept:
    """Return the answer to a request, or NULL: the Python handler serves it."""
    cdef uint8_t* end = put_answer(head, topics, permissions)
    cdef uint32_t size
    cdef ReplySlot* slot
    if end == NULL:
        return NULL
    size = <uint32_t>(end - &answer[0])
    store_uint32(&answer[0], size - 4)
    slot = slot_new(size, 0)
    if slot != NULL:
        memcpy(slot.data, answer, size)
        slot.size = size
    return slot
