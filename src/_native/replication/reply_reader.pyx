"""Reads a Fetch response of version 17, one partition after the other.

    response     int32 correlation id | tags | int32 throttle | int16 error | int32 session id |
                 topics | tags
    topics       [16 bytes id | [partition] | tags]
    partition    int32 index | int16 error | int64 high watermark | int64 last stable offset |
                 int64 log start offset | [aborted] | int32 preferred replica | records | tags
    aborted      int64 producer id | int64 first offset | tags
    tags         0: the end of a diverging epoch (KIP-595): int32 epoch | int64 end offset | tags

The records are not read here. Partitions of a malformed response that come before its first bad
byte are valid: nothing in a response concerns another partition.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcpy

from broker._native.kernel.cursor cimport (
    READ_DONE,
    Cursor,
    cursor_int16,
    cursor_int32,
    cursor_int64,
    cursor_take,
)
from broker._native.messages.fields cimport (
    read_count, read_records, read_tag, read_tag_count, read_tags,
)

cdef enum:
    TAG_DIVERGING = 0


cdef bint reply_begin(ReplyReader* reader, Cursor frame, ReplyHead* head) noexcept nogil:
    """Read everything before the first topic; return False if that is malformed."""
    cdef int32_t throttle_ms = 0
    reader.partitions = 0
    if (cursor_int32(&frame, &head.correlation_id) != READ_DONE
            or not read_tags(&frame, True)
            or cursor_int32(&frame, &throttle_ms) != READ_DONE
            or cursor_int16(&frame, &head.error) != READ_DONE
            or cursor_int32(&frame, &head.session_id) != READ_DONE
            or not read_count(&frame, True, &reader.topics)):
        return False
    reader.topics = max(reader.topics, 0) + 1      # before the first one, none has ended
    reader.rest = frame
    return True


cdef bint read_diverging(Cursor field, ReplyPartition* partition) noexcept nogil:
    partition.is_diverging = True
    return (cursor_int32(&field, &partition.diverging_epoch) == READ_DONE
            and cursor_int64(&field, &partition.diverging_end) == READ_DONE
            and read_tags(&field, True))


cdef bint read_partition_tags(Cursor* rest, ReplyPartition* partition) noexcept nogil:
    cdef uint32_t count = 0, tag = 0, _i
    cdef Cursor field
    if not read_tag_count(rest, &count):
        return False
    for _i in range(count):
        if not read_tag(rest, &tag, &field) or (
                tag == TAG_DIVERGING and not read_diverging(field, partition)):
            return False
    return True


cdef bint skip_aborted(Cursor* rest) noexcept nogil:
    cdef int32_t count = 0, _i
    if not read_count(rest, True, &count):
        return False
    for _i in range(count):
        if cursor_take(rest, 8 + 8) == NULL or not read_tags(rest, True):
            return False
    return True


cdef bint read_partition(Cursor* rest, ReplyPartition* partition) noexcept nogil:
    cdef int64_t last_stable_offset = 0
    cdef int32_t preferred = 0
    if (cursor_int32(rest, &partition.partition) != READ_DONE
            or cursor_int16(rest, &partition.error) != READ_DONE
            or cursor_int64(rest, &partition.high_watermark) != READ_DONE
            or cursor_int64(rest, &last_stable_offset) != READ_DONE
            or cursor_int64(rest, &partition.log_start) != READ_DONE
            or not skip_aborted(rest)
            or cursor_int32(rest, &preferred) != READ_DONE
            or not read_records(rest, True, &partition.records, &partition.records_size)):
        return False
    if partition.records == NULL:
        partition.records_size = 0
    partition.is_diverging = False
    return read_partition_tags(rest, partition)


cdef PartitionRead reply_next(ReplyReader* reader, ReplyPartition* partition) noexcept nogil:
    """Read the next partition; its pointers are valid as long as the frame is where it is."""
    cdef const uint8_t* topic_id
    while reader.partitions == 0:
        reader.topics -= 1
        if reader.topics == 0:
            # Tags of the response are those of later versions, or addresses of other brokers.
            return PARTITION_NONE if read_tags(&reader.rest, True) else PARTITION_BAD
        topic_id = cursor_take(&reader.rest, TOPIC_ID_SIZE)
        if topic_id == NULL or not read_count(&reader.rest, True, &reader.partitions):
            return PARTITION_BAD
        memcpy(reader.topic_id, topic_id, TOPIC_ID_SIZE)
        if reader.partitions <= 0:
            reader.partitions = 0
            if not read_tags(&reader.rest, True):
                return PARTITION_BAD
    partition.topic_id = reader.topic_id
    if not read_partition(&reader.rest, partition):
        return PARTITION_BAD
    reader.partitions -= 1
    if reader.partitions == 0 and not read_tags(&reader.rest, True):
        return PARTITION_BAD
    return PARTITION_READ
