"""V1's PRODUCE, natively: to a topic that exists, with acks 0 or 1, without open transactions.

Everything is checked before anything is changed. What is unusual is left to the Python handler,
which is the specification of this code. The answer waits for the log, as every acknowledgement
does.
"""

from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.decimal cimport DECIMAL_SIZE_MAX, store_signed
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.permissions cimport MAY_WRITE, permits
from broker._native.log.topic_table cimport TopicEntry
from broker._native.protocols.v1.line cimport word_take
from broker._native.protocols.v1.line_text cimport has_white_space
from broker._native.records.plain_batch cimport (
    PlainBatch,
    plain_add,
    plain_begin,
    plain_finish,
    plain_trim,
)
from broker._native.wire.plain_append cimport (
    PLAIN_DONE,
    PlainStatus,
    plain_append,
    plain_takes,
    plain_wait_local,
)
from broker._native.wire.reply_slot cimport slot_free, slot_new

cdef enum:
    COLON = 0x3A
    ACKS_SIZE = 6             # acks=1
    PAYLOAD_MAX = 13 + 8 + 4 + 1 + 3 * DECIMAL_SIZE_MAX
    FNV_OFFSET = 0x811C9DC5
    FNV_PRIME = 0x01000193

cdef PlainBatch batch         # used within one call only

# A message and its partition.
cdef struct Message:
    Cursor key
    Cursor value
    int32_t partition


cdef uint32_t fnv_1a(Cursor key) noexcept nogil:
    cdef uint32_t number = <uint32_t>FNV_OFFSET
    cdef size_t i
    for i in range(key.left):
        number = (number ^ key.next[i]) * <uint32_t>FNV_PRIME
    return number


cdef bint read_message(Cursor* args, Message* message) noexcept nogil:
    cdef Cursor word, acks
    cdef const uint8_t* colon
    if not word_take(args, &word) or has_white_space(word.next, word.left):
        return False
    colon = <const uint8_t*>memchr(word.next, COLON, word.left)
    if colon == NULL:
        return False
    message.key.next = word.next
    message.key.left = <size_t>(colon - word.next)
    message.value.next = colon + 1
    message.value.left = word.left - message.key.left - 1
    if args.left == 0:
        return True
    return (word_take(args, &acks) and args.left == 0 and acks.left == ACKS_SIZE
            and (memcmp(acks.next, b"acks=1", ACKS_SIZE) == 0
                 or memcmp(acks.next, b"acks=0", ACKS_SIZE) == 0))


cdef inline uint8_t* put(uint8_t* at, const void* data, size_t size) noexcept nogil:
    memcpy(at, data, size)
    return at + size


cdef void answer(ReplySlot* slot, Line* line, Refusal* refusal, int32_t partition,
                 int64_t offset, int64_t last_readable) noexcept nogil:
    cdef uint8_t* at = put(slot.data, line.head, line.head_size)
    at = put(at, b"OK|partition=", 13)
    at = store_signed(at, partition)
    at = put(at, b" offset=", 8)
    at = store_signed(at, offset)
    at = put(at, b" hw=", 4)
    at = store_signed(at, last_readable)
    at = put(at, b"\n", 1)
    slot.size = <uint32_t>(at - slot.data)
    slot.failed_start = <uint32_t>line.head_size
    slot.failed_end = refusal.data
    slot.failed_size = <uint32_t>refusal.size


cdef ReplySlot* v1_produce(
        TopicTable topics, Turn turn, Permissions permissions, UnseenWrites* unseen, Line* line,
        Refusal* refusal) noexcept:
    """Append a message; return the slot of its answer, or NULL if nothing was changed."""
    cdef Message message
    cdef Cursor name
    cdef TopicEntry entry
    cdef PartitionLog log
    cdef PlainStatus status
    cdef ReplySlot* slot
    cdef int64_t base_offset = -1
    if not word_take(&line.args, &name) or not read_message(&line.args, &message):
        return NULL
    entry = topics.find_name(name.next, name.left)
    if entry is None or not permits(permissions, entry, MAY_WRITE):
        return NULL
    message.partition = <int32_t>(fnv_1a(message.key) % <uint32_t>len(entry.logs))
    log = entry.log_of(message.partition)
    # An open transaction holds back the last stable offset: hw would not be the offset of the
    # record.
    if not plain_takes(log, True) or log.transactions.first_undecided != INT64_MAX:
        return NULL
    slot = slot_new(
        <uint32_t>(line.head_size + max(<size_t>PAYLOAD_MAX, refusal.size)), 1)
    if slot == NULL:
        return NULL
    if (not plain_begin(&batch, turn.now_ms, message.key.left + message.value.left)
            or not plain_add(&batch, message.key.next, <int32_t>message.key.left,
                             message.value.next, <int32_t>message.value.left)):
        slot_free(slot)
        return NULL
    plain_finish(&batch)
    status = plain_append(log, &batch, True, &base_offset)
    plain_trim(&batch)
    if status != PLAIN_DONE:      # nothing was changed, except that the log may be offline now
        slot_free(slot)
        return NULL
    # hw is the high watermark when this is sent; of a log with other replicas, that of now: they
    # may not have the record by then.
    answer(slot, line, refusal, message.partition, base_offset,
           log.high_watermark - 1 if log.is_replicated else base_offset)
    plain_wait_local(log, slot, base_offset + 1, unseen)
    return slot
