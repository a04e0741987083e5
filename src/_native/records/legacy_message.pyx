"""Messages of magic 0 and 1: what brokers and clients before Kafka 0.11 wrote, one by one.

Layout (big-endian; protocols/kafka.md section 3):

     0  int64   offset
     8  int32   message size            bytes that follow this field
    12  uint32  CRC-32 (IEEE)           of everything from the magic to the end
    16  int8    magic, 0 or 1
    17  int8    attributes              bits 0-2 codec (none gzip snappy lz4), 3 log append time
    18  int64   timestamp, ms           magic 1 only
    ..  int32   key length, -1 null     then the key
    ..  int32   value length, -1 null   then the value

A compressed message is a wrapper: its value unfolds to a message set, one level deep. The wrapper's
offset is that of its last inner message. Inner offsets are absolute in magic 0, and 0, 1, 2 ... in
magic 1. The magic stands at byte 16 in all three formats, so one look tells them apart.
"""

from libc.stdint cimport int8_t, int32_t, uint8_t

from broker._native.kernel.crc32 cimport crc32_extend
from broker._native.kernel.cursor cimport (
    READ_DONE, Cursor, cursor_int8, cursor_int32, cursor_int64, cursor_take, load_int32,
    load_int64, load_uint32,
)
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    BATCH_COUNT,
    BATCH_CRC,
    BATCH_EMPTY,
    BATCH_LENGTH,
    BATCH_MAGIC,
    BATCH_OK,
    BATCH_SIZE_MAX,
    BATCH_TRUNCATED,
    BatchInfo,
    BatchStatus,
    batch_header,
)
from broker._native.records.record_walk cimport Span

cdef enum:
    MESSAGE_LENGTH_END = 12    # bytes before what the size field counts


cdef BatchStatus message_take(Cursor* cursor, Message* message) noexcept nogil:
    """Read the message at the cursor and step over it."""
    cdef Cursor body
    cdef int32_t size
    if cursor.left == 0:
        return BATCH_EMPTY
    if cursor.left < MESSAGE_SIZE_MIN:
        return BATCH_TRUNCATED
    size = load_int32(cursor.next + 8)
    if size < MESSAGE_SIZE_MIN - MESSAGE_LENGTH_END or size > BATCH_SIZE_MAX:
        return BATCH_LENGTH
    message.size = <size_t>size + MESSAGE_LENGTH_END
    message.start = cursor_take(cursor, message.size)
    if message.start == NULL:
        return BATCH_TRUNCATED
    message.offset = load_int64(message.start)
    message.crc = load_uint32(message.start + 12)
    message.magic = <int8_t>message.start[16]
    if message.magic != 0 and message.magic != 1:
        return BATCH_MAGIC
    body.next = message.start + MESSAGE_HEAD_SIZE
    body.left = message.size - MESSAGE_HEAD_SIZE
    message.timestamp = -1
    if (cursor_int8(&body, &message.attributes) != READ_DONE
            or message.magic == 1 and cursor_int64(&body, &message.timestamp) != READ_DONE
            or not long_span_take(&body, &message.key)
            or not long_span_take(&body, &message.value)
            or body.left > 0):
        return BATCH_COUNT
    return BATCH_OK


cdef bint long_span_take(Cursor* cursor, Span* span) noexcept nogil:
    """Read an int32 length and step over as many bytes; False when they are not there."""
    if cursor_int32(cursor, &span.length) != READ_DONE or span.length < -1:
        return False
    span.start = cursor.next
    return span.length < 0 or cursor_take(cursor, <size_t>span.length) != NULL


cdef BatchStatus message_check_crc(const Message* message) noexcept nogil:
    cdef const uint8_t* covered = message.start + MESSAGE_CRC_START
    return BATCH_OK if message.crc == crc32_extend(
        0, covered, message.size - MESSAGE_CRC_START) else BATCH_CRC


cdef BatchStatus entry_take(Cursor* cursor, BatchInfo* info) noexcept nogil:
    """Read the head of what stands at the cursor, a batch or a message, and step over it whole.

    A message is told as a batch of one record; of a wrapper, nobody knows how many: -1.
    """
    cdef Message message
    cdef BatchStatus status
    if cursor.left >= MESSAGE_HEAD_SIZE and cursor.next[16] > 1 or cursor.left == 0:
        return batch_header(cursor, info)
    status = message_take(cursor, &message)
    if status != BATCH_OK and status != BATCH_COUNT:    # then it is whole, whatever it holds
        return status
    info.base_offset = message.offset
    info.size = message.size
    info.leader_epoch = -1
    info.magic = message.magic
    info.crc = message.crc
    info.attributes = message.attributes
    info.last_offset_delta = 0
    info.base_timestamp = info.max_timestamp = message.timestamp
    info.producer_id = -1
    info.producer_epoch = -1
    info.base_sequence = -1
    info.record_count = 1 if message.attributes & ATTRIBUTE_CODEC == 0 else -1
    return BATCH_OK
