"""Cursus's APPEND_STREAM, natively: the next event of a stream whose version is known.

    APPEND_STREAM topic=t key=k version=n [event_type=e] [schema_version=n] [producerId=p]
                  [metadata=m] message=...     with or without an envelope; arguments in any order

The version is compared and reserved at the append. Everything else, each refusal among it, is left
to the Python handler, which is the specification of this code. The answer waits for the log.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memset

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.permissions cimport MAY_WRITE, permits
from broker._native.log.topic_table cimport TopicEntry
from broker._native.protocols.cursus.batch cimport CursusRecord, Text, cursus_hash
from broker._native.protocols.cursus.produce cimport LOG_HAS_STREAMS, TEXT_MAX, add_record
from broker._native.protocols.cursus.publish cimport (
    argument_take,
    command_take,
    has_structured_errors,
    is_word,
    message_take,
    put_failed,
    read_number,
)
from broker._native.protocols.cursus.stream_heads cimport StreamHeads
from broker._native.records.plain_batch cimport (
    PlainBatch,
    plain_begin,
    plain_finish,
    plain_trim,
)
from broker._native.wire.frame cimport FRAME_HEAD_SIZE
from broker._native.wire.plain_append cimport PLAIN_DONE, built_append, log_takes, plain_wait
from broker._native.wire.reply_slot cimport slot_free, slot_new

from broker.model import limits

cdef enum:
    ANSWER_MAX = 128              # three numbers and their names
    WORD_SIZE = 14                # the keyword and the blank after it

cdef size_t BODY_BYTES_MAX = limits.CURSUS_FAST_BATCH_BYTES_MAX
cdef PlainBatch batch             # used within one call only

# A parsed APPEND_STREAM.
cdef struct Event:
    Text topic
    int64_t version
    CursusRecord record


cdef bint append_take(Cursor* body) noexcept nogil:
    """Step over the envelope, if any, and the keyword; return False for other commands."""
    return command_take(body, b"APPEND_STREAM ", WORD_SIZE)


cdef bint read_argument(Text name, Text value, Event* event) noexcept nogil:
    cdef int64_t number = 0
    if is_word(name, b"topic", 5):
        event.topic = value
    elif is_word(name, b"key", 3):
        event.record.key = value
    elif is_word(name, b"version", 7):
        return read_number(value, False, &event.version)
    elif is_word(name, b"event_type", 10):
        event.record.event_type = value
    elif is_word(name, b"schema_version", 14):
        if not read_number(value, False, &number) or number > <int64_t>(<uint32_t>-1):
            return False
        event.record.schema_version = <uint32_t>number
    elif is_word(name, b"metadata", 8):
        event.record.metadata = value
    elif is_word(name, b"producerId", 10):
        event.record.producer_id = value
    else:
        return False
    return value.size <= TEXT_MAX


cdef bint read_append(Cursor body, Event* event) noexcept nogil:
    """Parse an APPEND_STREAM; return False for one that is left to Python, and for others."""
    cdef Cursor head
    cdef Text name, value
    memset(event, 0, sizeof(Event))
    if not append_take(&body) or not message_take(&body, &head, &event.record.payload):
        return False
    while argument_take(&head, &name, &value):
        if name.size == 0:
            return event.topic.size > 0 and event.record.key.size > 0 and event.version > 0
        if not read_argument(name, value, event):
            return False
    return False


cdef void put_answers(ReplySlot* slot, Event* event, int64_t offset, int32_t partition):
    cdef int size = snprintf(
        <char*>slot.data + FRAME_HEAD_SIZE, ANSWER_MAX, b"OK version=%lld offset=%lld partition=%d",
        <long long>event.version, <long long>offset, <int>partition)
    store_uint32(slot.data, <uint32_t>size)
    slot.size = FRAME_HEAD_SIZE + <uint32_t>size
    put_failed(slot)


cdef bint fill(CursusRecord* record, Turn turn) noexcept:
    if not plain_begin(&batch, turn.now_ms, record.key.size + record.payload.size):
        return False
    if not add_record(&batch, record):
        return False
    plain_finish(&batch)
    return True


cdef ReplySlot* cursus_append(
        TopicTable topics, Turn turn, Permissions permissions, StreamTables tables, session,
        Cursor body):
    """Append an event; return the slot of its answer, or NULL if nothing was changed."""
    cdef Event event
    cdef TopicEntry entry
    cdef PartitionLog log
    cdef StreamHeads heads
    cdef ReplySlot* slot
    cdef bytes key
    cdef bint is_done
    cdef int64_t offset = -1
    if body.left > BODY_BYTES_MAX or not read_append(body, &event):
        return NULL
    entry = topics.find_name(event.topic.data, event.topic.size)
    if entry is None or len(entry.logs) == 0 or not permits(permissions, entry, MAY_WRITE) or (
            has_structured_errors(session)):
        return NULL
    log = entry.log_of(<int32_t>(cursus_hash(event.record.key) % <uint64_t>len(entry.logs)))
    if log is None or not log.protocol_flags & LOG_HAS_STREAMS or not log_takes(log):
        return NULL
    heads = tables.find(log)
    if heads is None or tables.recent_bytes >= tables.recent_bytes_max:
        return NULL
    key = PyBytes_FromStringAndSize(<const char*>event.record.key.data, event.record.key.size)
    version = heads.versions.get(key)
    if version is None or version != event.version - 1:
        return NULL
    slot = slot_new(2 * (FRAME_HEAD_SIZE + ANSWER_MAX), 1)
    if slot == NULL:
        return NULL
    event.record.aggregate_version = <uint64_t>event.version
    is_done = fill(&event.record, turn) and (
        built_append(log, &batch, &offset) == PLAIN_DONE)
    plain_trim(&batch)
    if not is_done:               # nothing was changed, except that the log may be offline now
        slot_free(slot)
        return NULL
    heads.note(key, event.version, offset)
    put_answers(slot, &event, offset, log.partition)
    plain_wait(log, slot, offset + 1)
    return slot
