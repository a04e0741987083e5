"""Cursus's PUBLISH, natively: one message to a topic that exists and has no named producers.

    PUBLISH topic=t producerId=p [partition=n] [key=k] [acks=a] [seqNum=n] [epoch=n]
            [isIdempotent=b] message=...        with or without an envelope; arguments in any order

Everything is checked before anything is changed. What is unusual is left to the Python handler,
which is the specification of this code. The answer waits for the log, unless acks is 0.
"""

cimport cython
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.permissions cimport MAY_WRITE, permits
from broker._native.log.topic_table cimport TopicEntry
from broker._native.protocols.cursus.batch cimport CursusHead, CursusRecord, Text, cursus_hash
from broker._native.protocols.cursus.command cimport (
    argument_take,
    command_take,
    has_structured_errors,
    is_word,
    message_take,
    put_failed,
    read_number,
)
from broker._native.protocols.cursus.produce cimport (
    ACKS_NONE,
    ACKS_UNKNOWN,
    LOG_HAS_NAMED_PRODUCERS,
    LOG_SPREADS_KEYS,
    Acks,
    acks_of,
    answer_slot,
    fill_one,
    is_plain_text,
    put_answer,
    put_unacknowledged,
    wait_for_acks,
)
from broker._native.records.plain_batch cimport PlainBatch, plain_trim
from broker._native.wire.plain_append cimport PLAIN_DONE, plain_append, plain_takes
from broker._native.wire.reply_slot cimport slot_free

from broker.model import limits

cdef enum:
    ANY_PARTITION = -1
    WORD_SIZE = 8                 # the keyword and the blank after it

cdef size_t BODY_BYTES_MAX = limits.CURSUS_FAST_BATCH_BYTES_MAX
cdef PlainBatch batch             # used within one call only

# A parsed PUBLISH.
cdef struct Message:
    Text topic
    int64_t partition
    Acks acks
    CursusRecord record


@cython.final
cdef class RoundRobin:
    """Distributes messages without a partition or a key over a topic's partitions."""

    def next(self, int32_t partition_count):
        """Return the partition of the next message."""
        cdef int32_t partition = self.peek(partition_count)
        self.assigned += 1
        return partition

    cdef int32_t peek(self, int32_t partition_count) noexcept:
        return <int32_t>(self.assigned % <uint64_t>partition_count)


# ---- parsing -----------------------------------------------------------------------------------

cdef bint read_argument(Text name, Text value, Message* message) noexcept nogil:
    cdef int64_t number = 0
    if is_word(name, b"topic", 5):
        message.topic = value
    elif is_word(name, b"producerId", 10):
        message.record.producer_id = value
    elif is_word(name, b"key", 3):
        message.record.key = value
    elif is_word(name, b"acks", 4):
        message.acks = acks_of(value)
    elif is_word(name, b"seqNum", 6):
        if not read_number(value, False, &number):
            return False
        message.record.sequence = <uint64_t>number
    elif is_word(name, b"epoch", 5):
        return read_number(value, True, &message.record.epoch)
    elif is_word(name, b"partition", 9):
        if value.size == 0 or is_word(value, b"-1", 2):
            message.partition = ANY_PARTITION
            return True
        return read_number(value, False, &message.partition)
    elif is_word(name, b"isIdempotent", 12):
        return value.size == 0 or is_word(value, b"true", 4) or is_word(value, b"false", 5)
    else:
        return False
    return True


cdef bint read_arguments(Cursor head, Message* message) noexcept nogil:
    cdef Text name, value
    while argument_take(&head, &name, &value):
        if name.size == 0:
            return True
        if not read_argument(name, value, message):
            return False
    return False


cdef bint publish_take(Cursor* body) noexcept nogil:
    """Step over the envelope, if any, and the keyword; return False for other commands."""
    return command_take(body, b"PUBLISH ", WORD_SIZE)


cdef bint read_publish(Cursor body, Message* message) noexcept nogil:
    """Parse a PUBLISH; return False for one that is left to Python, and for anything else."""
    cdef Cursor head
    cdef Text payload
    if not publish_take(&body) or not message_take(&body, &head, &payload):
        return False
    memset(message, 0, sizeof(Message))
    message.partition = ANY_PARTITION
    message.acks = acks_of(message.topic)     # of an empty text: the default
    message.record.payload = payload
    return (read_arguments(head, message) and message.topic.size > 0
            and message.acks != ACKS_UNKNOWN and message.record.producer_id.size > 0
            and is_plain_text(message.record.producer_id))


# ---- appending ---------------------------------------------------------------------------------

cdef PartitionLog log_for(TopicEntry entry, RoundRobin round_robin, Message* message):
    """Return the message's log; its partition stays ANY_PARTITION if round-robin chose it."""
    cdef int32_t count = <int32_t>len(entry.logs)
    cdef PartitionLog log
    if count == 0 or message.partition >= count:
        return None
    if message.partition != ANY_PARTITION:
        return entry.log_of(<int32_t>message.partition)
    if message.record.key.size > 0:
        log = entry.log_of(<int32_t>(cursus_hash(message.record.key) % <uint64_t>count))
        if log is None:
            return None
        if not log.protocol_flags & LOG_SPREADS_KEYS:
            message.partition = log.partition
            return log
    return entry.log_of(round_robin.peek(count))


cdef void put_answers(
        ReplySlot* slot, CursusRecord* record, Text leader, int64_t offset) noexcept nogil:
    cdef CursusHead head
    head.seq_start = head.seq_end = record.sequence
    slot.size = put_answer(slot.data, b"OK", offset, &head, record, leader, b"")
    put_failed(slot)


cdef ReplySlot* cursus_publish(
        TopicTable topics, Turn turn, Permissions permissions, RoundRobin round_robin,
        UnseenWrites* unseen, Text leader, session, Cursor body):
    """Append a message, as `cursus_produce` does a batch."""
    cdef Message message
    cdef TopicEntry entry
    cdef PartitionLog log
    cdef ReplySlot* slot
    cdef bint is_done
    cdef int64_t offset = -1
    if body.left > BODY_BYTES_MAX or not read_publish(body, &message):
        return NULL
    entry = topics.find_name(message.topic.data, message.topic.size)
    if entry is None or has_structured_errors(session) or not permits(
            permissions, entry, MAY_WRITE):
        return NULL
    log = log_for(entry, round_robin, &message)
    if not plain_takes(log, message.record.key.size > 0) or (
            log.protocol_flags & LOG_HAS_NAMED_PRODUCERS):
        return NULL
    slot = answer_slot(&message.record, leader)
    if slot == NULL:
        return NULL
    is_done = fill_one(&batch, &message.record, turn) and plain_append(
        log, &batch, message.record.key.size > 0, &offset) == PLAIN_DONE
    plain_trim(&batch)
    if not is_done:               # nothing was changed, except that the log may be offline now
        slot_free(slot)
        return NULL
    if message.partition == ANY_PARTITION:
        round_robin.assigned += 1
    if message.acks == ACKS_NONE:
        put_unacknowledged(slot, unseen, log, offset + 1)
        return slot
    put_answers(slot, &message.record, leader, offset)
    wait_for_acks(log, slot, offset + 1, message.acks, unseen)
    return slot
