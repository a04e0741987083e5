"""Cursus's APPEND_STREAM, natively: the next event of a stream, or the first of a new one.

    APPEND_STREAM topic=t key=k version=n [event_type=e] [schema_version=n] [producerId=p]
                  [metadata=m] message=...     with or without an envelope; arguments in any order

The version is compared and reserved at the append; a key may be known to have no stream yet, by
stream_filter. A stream that is not known is looked up first (stream_lookup). Everything else, each
refusal among it, is left to the Python handler, which is the specification of this code. The answer
waits for the log.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memchr, memset

from broker._native.kernel.big_endian cimport store_uint32
from broker._native.kernel.cursor cimport cursor_take
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.permissions cimport MAY_WRITE, permits
from broker._native.log.topic_table cimport TopicEntry
from broker._native.protocols.cursus.batch cimport CursusRecord, Text, cursus_hash, object_of
from broker._native.protocols.cursus.command cimport (
    argument_take,
    command_take,
    has_structured_errors,
    is_word,
    message_take,
    put_failed,
    read_number,
)
from broker._native.protocols.cursus.produce cimport LOG_HAS_STREAMS, TEXT_MAX, fill_one
from broker._native.protocols.cursus.stream_heads cimport StreamHeads
from broker._native.protocols.cursus.stream_lookup cimport lookup_begin, lookup_take
from broker._native.records.plain_batch cimport PlainBatch, plain_trim
from broker._native.wire.frame cimport FRAME_HEAD_SIZE, frame_cut
from broker._native.wire.plain_append cimport PLAIN_DONE, built_append, log_takes, plain_wait
from broker._native.wire.reply_slot cimport ReplySlot, slot_free, slot_new

from broker.model import limits, stream_limits

cdef enum:
    ANSWER_MAX = 128              # three numbers and their names
    WORD_SIZE = 14                # the keyword and the blank after it

cdef size_t BODY_BYTES_MAX = limits.CURSUS_FAST_BATCH_BYTES_MAX
cdef size_t KEY_BYTES_MAX = stream_limits.EVENT_KEY_BYTES_MAX
cdef int FORESEEN_MAX = stream_limits.STREAMS_FORESEEN_MAX
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
        return value.size <= KEY_BYTES_MAX and memchr(value.data, 0, value.size) == NULL
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


cdef PartitionLog log_of(Connection connection, Permissions permissions, Event* event):
    """Return the log of an event, or None if Python has to serve it."""
    cdef PartitionLog log
    cdef TopicEntry entry = connection.poller.topics.find_name(event.topic.data, event.topic.size)
    if entry is None or len(entry.logs) == 0 or not permits(permissions, entry, MAY_WRITE) or (
            has_structured_errors(connection.session)):
        return None
    log = entry.log_of(<int32_t>(cursus_hash(event.record.key) % <uint64_t>len(entry.logs)))
    if log is None or not log.protocol_flags & LOG_HAS_STREAMS or not log_takes(log):
        return None
    return log


cdef bint is_first(StreamHeads heads, Event* event) noexcept:
    """Return whether an event is the first of a stream that surely has none."""
    return event.version == 1 and heads.keys.lacks(event.record.key.data, event.record.key.size)


cdef bint cursus_append(
        Connection connection, Permissions permissions, StreamTables tables, Cursor body):
    """Append an event, or let it wait until its stream is known; return False for Python's.

    Nothing was changed then, nor for an event that waits.
    """
    cdef Event event
    cdef PartitionLog log
    cdef StreamHeads heads
    cdef bytes key
    cdef bint has_waited = lookup_take(connection)
    if body.left > BODY_BYTES_MAX or not read_append(body, &event):
        return False
    log = log_of(connection, permissions, &event)
    if log is None:
        return False
    heads = tables.find(log)
    if heads is None or tables.recent_bytes >= tables.recent_bytes_max:
        return False
    key = object_of(event.record.key)
    version = heads.versions.get(key)
    if version is None and not is_first(heads, &event):
        return not has_waited and lookup_begin(connection, heads, log, key)
    if version is not None and version != event.version - 1:
        return False
    return append(connection, log, heads, key, &event)


cdef int append_foresee(
        Connection connection, Permissions permissions, StreamTables tables, Cursor rest) except -1:
    """Have the streams of the appends behind one that waits looked up, too.

    They would wait one after another otherwise.
    """
    cdef Cursor frame
    cdef Event event
    cdef PartitionLog log
    cdef StreamHeads heads
    cdef bytes key
    cdef int64_t taken
    cdef int _frame
    for _frame in range(FORESEEN_MAX):
        taken = frame_cut(rest.next, rest.left, 0, <uint32_t>BODY_BYTES_MAX, &frame)
        if taken <= 0 or not read_append(frame, &event):
            break
        cursor_take(&rest, <size_t>taken)
        connection.poller.work += 1
        log = log_of(connection, permissions, &event)
        heads = None if log is None else tables.find(log)
        if heads is None:
            break
        key = object_of(event.record.key)
        if key not in heads.versions and not is_first(heads, &event):
            heads.foresee(log, key)
    return 0


cdef bint append(
        Connection connection, PartitionLog log, StreamHeads heads, bytes key, Event* event):
    """Append an event that is the next of its stream; return False if nothing was changed."""
    cdef int64_t offset = -1
    cdef bint is_done
    cdef ReplySlot* slot = slot_new(2 * (FRAME_HEAD_SIZE + ANSWER_MAX), 1)
    if slot == NULL:
        return False
    event.record.aggregate_version = <uint64_t>event.version
    is_done = fill_one(&batch, &event.record, connection.poller.turn) and (
        built_append(log, &batch, &offset) == PLAIN_DONE)
    plain_trim(&batch)
    if not is_done:               # nothing was changed, except that the log may be offline now
        slot_free(slot)
        return False
    heads.note(key, event.version, offset)
    put_answers(slot, event, offset, log.partition)
    plain_wait(log, slot, offset + 1)
    connection.enqueue(slot)
    return True
