"""Cursus's batch, natively: to a topic that exists and has no named producers.

Everything is checked before anything is changed. Unusual and long requests are left to the Python
handler, which is the specification of this code. The answer waits for the log, unless acks is 0.
"""

from libc.stdint cimport int32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy, strlen

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.kernel.decimal cimport DECIMAL_SIZE_MAX, store_signed, store_unsigned
from broker._native.log.permissions cimport MAY_WRITE, permits
from broker._native.log.topic_table cimport TopicEntry
from broker._native.log.turn cimport LOG_NOT_LED, LOG_OFFLINE, LOG_TIMED_OUT, LogStatus
from broker._native.protocols.cursus.batch cimport CURSUS_OK, cursus_check, cursus_record
from broker._native.records.plain_batch cimport (
    plain_add_headed,
    plain_begin,
    plain_finish,
    plain_header,
    plain_trim,
)
from broker._native.wire.frame cimport FRAME_HEAD_SIZE
from broker._native.wire.plain_append cimport (
    PLAIN_DONE, plain_append, plain_takes, plain_wait, plain_wait_local,
)
from broker._native.wire.reply_slot cimport slot_free, slot_new, slot_replace
from broker._native.wire.unseen_writes cimport unseen_add

from broker.model import limits

cdef enum:
    HEADERS_MAX = 1 + 3 * (10 + 24 + TEXT_MAX) + 4 * (10 + 24 + 20)

# For Python, which sets them.
HAS_NAMED_PRODUCERS = LOG_HAS_NAMED_PRODUCERS
SPREADS_KEYS = LOG_SPREADS_KEYS
HAS_STREAMS = LOG_HAS_STREAMS

cdef size_t BATCH_BYTES_MAX = limits.CURSUS_FAST_BATCH_BYTES_MAX
cdef PlainBatch batch             # used within one call only

cdef const char* ACK = (
    b'{"status":"%s","last_offset":%lld,"producer_epoch":%lld,"producer_id":"%.*s",'
    b'"seq_start":%llu,"seq_end":%llu,"leader":"%.*s","error":"%s"}')
cdef const char* FAILED = b"broker_error reason='the log of the partition has failed'"
# As protocols/cursus/errors.py: clients try again after errors of this code.
cdef const char* TOO_FEW = (
    b"leader_not_found reason='too few replicas are in sync, try again later'")
cdef const char* TOO_LATE = (
    b"leader_not_found reason='the replicas in sync have not copied it in time'")
cdef const char* NOT_LEADER = b"ERROR: NOT_LEADER"


cdef Acks acks_of(Text acks) noexcept nogil:
    if acks.size == 0 or (acks.size == 1 and acks.data[0] == c"1"):
        return ACKS_ONE
    if acks.size == 1 and acks.data[0] == c"0":
        return ACKS_NONE
    if (acks.size == 2 and memcmp(acks.data, b"-1", 2) == 0) or (
            acks.size == 3 and memcmp(acks.data, b"all", 3) == 0):
        return ACKS_ALL
    return ACKS_UNKNOWN


cdef bint is_plain_text(Text text) noexcept nogil:
    """Return whether a text needs no escapes in JSON."""
    cdef size_t i
    if text.size > TEXT_MAX:
        return False
    for i in range(text.size):
        if not 0x20 <= text.data[i] < 0x7F or text.data[i] == c'"' or text.data[i] == c"\\":
            return False
    return True


cdef inline uint8_t* put_text(
        uint8_t* at, const char* name, int32_t name_size, Text text) noexcept nogil:
    return plain_header(at, <const uint8_t*>name, name_size, text.data, <int32_t>text.size)


cdef uint8_t* put_number(
        uint8_t* at, const char* name, int32_t name_size, uint64_t number,
        bint is_signed) noexcept nogil:
    cdef uint8_t digits[DECIMAL_SIZE_MAX]
    cdef uint8_t* end = (
        store_signed(digits, <int64_t>number) if is_signed else store_unsigned(digits, number))
    return plain_header(at, <const uint8_t*>name, name_size, digits, <int32_t>(end - digits))


cdef size_t put_headers(uint8_t* into, CursusRecord* record) noexcept nogil:
    """Write the headers named in batch.pyx, after their count; return their size."""
    cdef uint8_t* at = into + 1
    cdef uint8_t count = 0
    if record.producer_id.size > 0:
        at = put_text(at, b"cursus.producer_id", 18, record.producer_id)
        count += 1
    if record.sequence != 0:
        at = put_number(at, b"cursus.seq_num", 14, record.sequence, False)
        count += 1
    if record.epoch != 0:
        at = put_number(at, b"cursus.epoch", 12, <uint64_t>record.epoch, True)
        count += 1
    if record.event_type.size > 0:
        at = put_text(at, b"cursus.event_type", 17, record.event_type)
        count += 1
    if record.schema_version != 0:
        at = put_number(at, b"cursus.schema_version", 21, record.schema_version, False)
        count += 1
    if record.aggregate_version != 0:
        at = put_number(at, b"cursus.aggregate_version", 24, record.aggregate_version, False)
        count += 1
    if record.metadata.size > 0:
        at = put_text(at, b"cursus.metadata", 15, record.metadata)
        count += 1
    into[0] = <uint8_t>(2 * count)      # a varint of less than 64
    return <size_t>(at - into)


cdef bint add_record(PlainBatch* into, CursusRecord* record) noexcept:
    """Add a record to a batch; return False without memory."""
    cdef uint8_t headers[HEADERS_MAX]
    return plain_add_headed(
        into, record.key.data, <int32_t>record.key.size if record.key.size > 0 else -1,
        record.payload.data, <int32_t>record.payload.size, headers, put_headers(headers, record))


cdef bint fill(Cursor records, int32_t count, Turn turn, bint* have_keys) noexcept:
    """Build a batch of the records; return False if Python must serve one of them."""
    cdef CursusRecord record
    cdef int32_t _record
    have_keys[0] = True
    if not plain_begin(&batch, turn.now_ms, records.left):
        return False
    for _record in range(count):
        if not cursus_record(&records, &record):
            return False
        if (record.producer_id.size > TEXT_MAX or record.event_type.size > TEXT_MAX
                or record.metadata.size > TEXT_MAX):
            return False
        if record.key.size == 0:
            have_keys[0] = False
        if not add_record(&batch, &record):
            return False
    plain_finish(&batch)
    return True


cdef bint fill_one(PlainBatch* into, CursusRecord* record, Turn turn) noexcept:
    """Build a batch of one record; return False without memory."""
    if not plain_begin(into, turn.now_ms, record.key.size + record.payload.size):
        return False
    if not add_record(into, record):
        return False
    plain_finish(into)
    return True


cdef uint32_t put_answer(
        uint8_t* at, const char* status, int64_t last_offset, CursusHead* head,
        CursusRecord* last, Text leader, const char* error) noexcept nogil:
    """Write the frame of an answer into an `answer_slot`; return its size."""
    cdef int size = snprintf(
        <char*>at + FRAME_HEAD_SIZE, ANSWER_MAX, ACK, status, <long long>last_offset,
        <long long>last.epoch, <int>last.producer_id.size, <const char*>last.producer_id.data,
        <unsigned long long>head.seq_start, <unsigned long long>head.seq_end,
        <int>leader.size, <const char*>leader.data, error)
    store_uint32(at, <uint32_t>size)
    return FRAME_HEAD_SIZE + <uint32_t>size


cdef ReplySlot* answer_slot(CursusRecord* last, Text leader) noexcept nogil:
    """Return a slot with room for two answers, one of them for a failure; NULL without memory."""
    return slot_new(
        2 * <uint32_t>(FRAME_HEAD_SIZE + ANSWER_SIZE + last.producer_id.size + leader.size), 1)


cdef void put_failure(ReplySlot* slot, const char* text) noexcept nogil:
    """Replace the whole reply, once, by a text."""
    cdef size_t size = strlen(text)
    store_uint32(slot.data, <uint32_t>size)
    memcpy(slot.data + FRAME_HEAD_SIZE, text, size)
    slot.size = FRAME_HEAD_SIZE + <uint32_t>size
    slot.fail = NULL


cdef void fail_batch(ReplySlot* slot, uint32_t place, LogStatus status) noexcept nogil:
    # A SlotFail. The answer ends with the text of an error, a quotation mark and a brace.
    cdef const char* error = TOO_LATE if status == LOG_TIMED_OUT else TOO_FEW
    cdef uint8_t* at
    if status == LOG_NOT_LED:
        put_failure(slot, NOT_LEADER)    # clients expect this error as text
        return
    slot_replace(slot, place, status)
    if status == LOG_OFFLINE:
        return
    at = slot.data + slot.size - strlen(FAILED) - 2
    at += snprintf(<char*>at, strlen(error) + 3, b'%s"}', error)
    slot.size = <uint32_t>(at - slot.data)
    store_uint32(slot.data, slot.size - FRAME_HEAD_SIZE)


cdef void wait_for_acks(
        PartitionLog log, ReplySlot* slot, int64_t end_offset, Acks acks,
        UnseenWrites* unseen) noexcept:
    """Delay a reply until its acknowledgement may be sent."""
    if acks == ACKS_ONE:
        plain_wait_local(log, slot, end_offset, unseen)
    else:
        plain_wait(log, slot, end_offset)


cdef void put_unacknowledged(
        ReplySlot* slot, UnseenWrites* unseen, PartitionLog log, int64_t end_offset) noexcept:
    """Write the answer to acks=0, which may be dropped: not every client reads it."""
    slot.size = FRAME_HEAD_SIZE + 15
    store_uint32(slot.data, 15)
    memcpy(slot.data + FRAME_HEAD_SIZE, b'{"status":"OK"}', 15)
    slot.is_droppable = True
    if log.high_watermark < end_offset and not unseen_add(unseen, log, end_offset):
        slot.is_closing = True       # later requests might not see what was written


cdef ReplySlot* cursus_produce(
        TopicTable topics, Turn turn, Permissions permissions, UnseenWrites* unseen, Text leader,
        Cursor body) noexcept:
    """Append a batch; return the slot of its answer, or NULL if nothing was changed.

    `leader` is this broker's address for the client, of LEADER_MAX bytes at most.
    """
    cdef CursusHead head
    cdef CursusRecord last
    cdef Cursor records
    cdef TopicEntry entry
    cdef PartitionLog log
    cdef ReplySlot* slot
    cdef bint have_keys = False, is_done
    cdef Acks acks
    cdef int64_t base_offset = -1
    if body.left < 2 or body.next[0] != BATCH_MAGIC or body.left > BATCH_BYTES_MAX:
        return NULL
    if cursus_check(body, &head, &records, &last) != CURSUS_OK or head.count == 0:
        return NULL
    acks = acks_of(head.acks)
    if acks == ACKS_UNKNOWN or not is_plain_text(last.producer_id):
        return NULL
    entry = topics.find_name(head.topic.data, head.topic.size)
    if entry is None or not 0 <= head.partition < <int64_t>len(entry.logs):
        return NULL
    if not permits(permissions, entry, MAY_WRITE):
        return NULL
    log = entry.log_of(<int32_t>head.partition)
    if not plain_takes(log, True) or log.protocol_flags & LOG_HAS_NAMED_PRODUCERS:
        return NULL
    slot = answer_slot(&last, leader)
    if slot == NULL:
        return NULL
    is_done = (
        fill(records, head.count, turn, &have_keys)
        and plain_append(log, &batch, have_keys, &base_offset) == PLAIN_DONE)
    plain_trim(&batch)
    if not is_done:               # nothing was changed, except that the log may be offline now
        slot_free(slot)
        return NULL
    if acks == ACKS_NONE:
        put_unacknowledged(slot, unseen, log, base_offset + head.count)
        return slot
    slot.size = put_answer(
        slot.data, b"OK", base_offset + head.count - 1, &head, &last, leader, b"")
    slot.failed_size = put_answer(
        slot.data + slot.size, b"ERROR", 0, &head, &last, leader, FAILED)
    slot.fail = fail_batch
    wait_for_acks(log, slot, base_offset + head.count, acks, unseen)
    return slot
