"""Reads messages of magic 0 and 1, the format of brokers and clients before Kafka 0.11.

Layout (big-endian; Kafka protocol guide, "Old Message Format"; KIP-32):

     0  int64   offset
     8  int32   message size            bytes that follow this field
    12  uint32  CRC-32 (IEEE)           of everything from the magic to the end
    16  int8    magic, 0 or 1
    17  int8    attributes              bits 0-2 codec (none gzip snappy lz4), 3 log append time
    18  int64   timestamp, ms           magic 1 only
    ..  int32   key length, -1 null     then the key
    ..  int32   value length, -1 null   then the value

A compressed message is a wrapper: its value decompresses to a message set, one level deep. The
wrapper's offset is that of its last inner message. Inner offsets are absolute in magic 0, and 0, 1,
2 ... in magic 1 (KIP-31). The magic is at byte 16 in all three formats, so it distinguishes them.

Header only: it is compiled into each module that cimports it.
"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from broker._native.kernel.checksum cimport crc32_extend
from broker._native.kernel.cursor cimport (
    READ_DONE, Cursor, cursor_int32, cursor_take, load_int32, load_int64, load_uint32,
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
    MESSAGE_HEAD_SIZE = 17       # offset, size, crc, magic: enough to read the magic
    MESSAGE_CRC_START = 16       # the CRC covers everything from the magic on
    MESSAGE_SIZE_MIN = 26        # an empty one of magic 0
    MESSAGE_LENGTH_END = 12      # bytes before what the size field counts
    MESSAGE_ATTRIBUTES = 17
    MESSAGE_TIME_START = 18      # magic 1 only
    MESSAGE_TIME_END = 26        # no message is shorter

cdef struct Message:
    int64_t offset
    int8_t magic
    int8_t attributes
    int64_t timestamp            # -1 in magic 0, which has none
    uint32_t crc
    const uint8_t* start
    size_t size
    Span key
    Span value


cdef inline bint long_span_take(Cursor* cursor, Span* span) noexcept nogil:
    """Read an int32 length and step over as many bytes; False when fewer are left."""
    if cursor_int32(cursor, &span.length) != READ_DONE or span.length < -1:
        return False
    span.start = cursor.next
    return span.length < 0 or cursor_take(cursor, <size_t>span.length) != NULL


cdef inline BatchStatus message_take(Cursor* cursor, Message* message) noexcept nogil:
    """Read the message at the cursor and step over it.

    When it is incomplete, `message` has its head if that is complete, else a size of 0.
    """
    cdef Cursor body
    cdef int32_t size
    message.size = 0
    if cursor.left == 0:
        return BATCH_EMPTY
    if cursor.left < MESSAGE_SIZE_MIN:
        return BATCH_TRUNCATED
    size = load_int32(cursor.next + 8)
    if size < MESSAGE_SIZE_MIN - MESSAGE_LENGTH_END or size > BATCH_SIZE_MAX:
        return BATCH_LENGTH
    message.size = <size_t>size + MESSAGE_LENGTH_END
    message.start = cursor.next
    message.offset = load_int64(message.start)
    message.crc = load_uint32(message.start + 12)
    message.magic = <int8_t>message.start[16]
    message.attributes = <int8_t>message.start[MESSAGE_ATTRIBUTES]
    message.timestamp = -1
    if message.magic == 1:
        message.timestamp = load_int64(message.start + MESSAGE_TIME_START)
    if cursor_take(cursor, message.size) == NULL:
        return BATCH_TRUNCATED
    if message.magic != 0 and message.magic != 1:
        return BATCH_MAGIC
    body.next = message.start + (MESSAGE_TIME_END if message.magic == 1 else MESSAGE_TIME_START)
    body.left = message.size - <size_t>(body.next - message.start)
    if (not long_span_take(&body, &message.key)
            or not long_span_take(&body, &message.value)
            or body.left > 0):
        return BATCH_COUNT
    return BATCH_OK


cdef inline BatchStatus message_check_crc(const Message* message) noexcept nogil:
    cdef const uint8_t* covered = message.start + MESSAGE_CRC_START
    return BATCH_OK if message.crc == crc32_extend(
        0, covered, message.size - MESSAGE_CRC_START) else BATCH_CRC


cdef inline BatchStatus entry_take(Cursor* cursor, BatchInfo* info) noexcept nogil:
    """Read the head of the batch or message at the cursor, and step over the whole.

    A message is described as a batch of one record; the record count of a wrapper is unknown: -1.
    When it is incomplete, `info` has its head if that is complete, else a size of 0.
    """
    cdef Message message
    cdef BatchStatus status
    if cursor.left >= MESSAGE_HEAD_SIZE and cursor.next[16] > 1 or cursor.left == 0:
        return batch_header(cursor, info)
    status = message_take(cursor, &message)
    info.size = message.size
    if message.size == 0:
        return status
    info.base_offset = message.offset
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
    # The fields of a whole message are checked when it is read; its head is valid in any case.
    return BATCH_OK if status == BATCH_COUNT else status
