"""Converts message sets of magic 0 and 1 to record batches of version 2, one batch per set.

The layouts are in legacy_message.pxd and record_batch.pyx. Records are numbered from 0: offsets of
producers are ignored. The timestamp of magic 0 is -1, none. The caller decompresses a wrapper first
and passes its uncompressed messages.

    message of magic 0    26 bytes, key and value      record    at most 23 bytes, key and value
    message of magic 1    34 bytes, key and value      record    at most 32 bytes, key and value

So the batch is written in one pass into a buffer for the messages and a header.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.kernel.varint cimport store_varint, varint_size, zigzag
from broker._native.records.legacy_message cimport Message, message_check_crc, message_take
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_LOG_APPEND_TIME,
    BATCH_ATTRIBUTES,
    BATCH_EMPTY,
    BATCH_LENGTH,
    BATCH_MAGIC,
    BATCH_NOT_ALONE,
    BATCH_OK,
    BATCH_SIZE_MAX,
    BatchInfo,
    BatchStatus,
    batch_status_text,
    batch_store_header,
)
from broker._native.records.record_store cimport content_size, store_content

from broker.model.errors import Corrupt

cdef enum:
    NO_TIMESTAMP = -1
    BODY_FIXED = 2          # of a record: its attributes and its header count of 0
    VERSION_2 = 2


cdef inline uint8_t* store_record(uint8_t* into, const Message* message, int64_t timestamp_delta,
                                  int32_t place) noexcept nogil:
    cdef uint64_t time = zigzag(timestamp_delta)
    cdef int64_t body = (BODY_FIXED + varint_size(time) + varint_size(<uint64_t>place << 1)
                         + content_size(message.key.length) + content_size(message.value.length))
    into = store_varint(into, <uint64_t>body << 1)
    into[0] = 0
    into = store_varint(into + 1, time)
    into = store_varint(into, <uint64_t>place << 1)
    into = store_content(into, message.key.start, message.key.length)
    into = store_content(into, message.value.start, message.value.length)
    into[0] = 0
    return into + 1


cdef inline bint is_append_time(const Message* message) noexcept nogil:
    return message.magic == 1 and message.attributes & ATTRIBUTE_LOG_APPEND_TIME != 0


cdef BatchStatus plain_take(Cursor* cursor, int magic, Message* message) noexcept nogil:
    """Read a message that must be complete, valid and uncompressed."""
    cdef BatchStatus status = message_take(cursor, message)
    if status == BATCH_OK:
        status = message_check_crc(message)
    if status != BATCH_OK:
        return status
    if magic != ANY_MAGIC and message.magic != magic:
        return BATCH_MAGIC
    return BATCH_ATTRIBUTES if message.attributes & ATTRIBUTE_CODEC else BATCH_OK


cdef BatchStatus messages_convert(const uint8_t* messages, size_t size, int magic,
                                  const int64_t* append_time, uint8_t* into,
                                  BatchInfo* info) noexcept nogil:
    """Write the batch of a set of uncompressed messages into `size` + CONVERTED_MORE bytes.

    `append_time` is that of the wrapper, if it has one; NULL: each message has its own timestamp.
    `info` gets the header of the batch; for an invalid message, its index as the record count.
    """
    cdef Cursor cursor
    cdef Message message
    cdef BatchStatus status
    cdef int64_t timestamp, base_timestamp = NO_TIMESTAMP, max_timestamp = NO_TIMESTAMP
    cdef int32_t count = 0
    cdef bint is_append = append_time != NULL
    cdef uint8_t* next = into + CONVERTED_MORE
    info.record_count = 0
    cursor.next = messages
    cursor.left = size
    if size == 0:
        return BATCH_EMPTY
    if size > BATCH_SIZE_MAX - CONVERTED_MORE:
        return BATCH_LENGTH
    while cursor.left > 0:
        status = plain_take(&cursor, magic, &message)
        if status != BATCH_OK:
            info.record_count = count
            return status
        timestamp = message.timestamp if append_time == NULL else append_time[0]
        if count == 0:
            base_timestamp = max_timestamp = timestamp
        is_append = is_append or is_append_time(&message)
        max_timestamp = max(max_timestamp, timestamp)
        # The difference of any two timestamps wraps, and so does the sum of the reader.
        next = store_record(
            next, &message, <int64_t>(<uint64_t>timestamp - <uint64_t>base_timestamp), count)
        count += 1
    info.base_offset = 0
    info.size = <size_t>(next - into)
    info.magic = VERSION_2
    info.attributes = ATTRIBUTE_LOG_APPEND_TIME if is_append else 0
    info.last_offset_delta = count - 1
    info.base_timestamp = base_timestamp
    info.max_timestamp = max_timestamp
    info.leader_epoch = info.base_sequence = -1
    info.producer_id = info.producer_epoch = -1
    info.record_count = count
    batch_store_header(into, info)
    return BATCH_OK


def convert_messages(messages, *, int magic=ANY_MAGIC, append_time=None):
    """Return the uncompressed batch of a set of uncompressed messages.

    Its base offset is 0, its leader epoch -1. `magic` is that of all messages, -1: 0 or 1.
    `append_time` (ms) is that of the messages' wrapper, if it has one. With it, or with a message
    of log append time, the batch has log append time, which no topic accepts unchanged.

    Raises:
        Corrupt: no message, or one that is incomplete, invalid, compressed or of another magic.
    """
    cdef Py_buffer view
    cdef BatchInfo info
    cdef BatchStatus status
    cdef int64_t time = 0
    cdef const int64_t* time_place = NULL
    cdef bytes batch
    cdef uint8_t* into
    if append_time is not None:
        time = append_time
        time_place = &time
    PyObject_GetBuffer(messages, &view, PyBUF_SIMPLE)
    try:
        batch = PyBytes_FromStringAndSize(NULL, view.len + CONVERTED_MORE)
        into = <uint8_t*>PyBytes_AS_STRING(batch)
        with nogil:
            status = messages_convert(<const uint8_t*>view.buf, <size_t>view.len, magic,
                                      time_place, into, &info)
    finally:
        PyBuffer_Release(&view)
    if status != BATCH_OK:
        raise Corrupt(f"message {info.record_count} of a set: {batch_status_text(status)}")
    return batch[:<Py_ssize_t>info.size]


def read_wrapper(messages):
    """Return the wrapper that is the only message of a set; None if the set is uncompressed.

    (codec, magic, append time in ms or None, position and size of the value). More messages after
    a wrapper are refused, because one batch has one codec.

    Raises:
        Corrupt: the message is incomplete or invalid, or more follow it.
    """
    cdef Py_buffer view
    cdef Cursor cursor
    cdef Message message
    cdef BatchStatus status
    PyObject_GetBuffer(messages, &view, PyBUF_SIMPLE)
    try:
        cursor.next = <const uint8_t*>view.buf
        cursor.left = <size_t>view.len
        with nogil:
            status = message_take(&cursor, &message)
            if status == BATCH_OK:
                status = message_check_crc(&message)
        if status == BATCH_OK and message.attributes & ATTRIBUTE_CODEC == 0:
            return None
        if status == BATCH_OK and cursor.left > 0:
            status = BATCH_NOT_ALONE
        if status != BATCH_OK:
            raise Corrupt(f"message 0 of a set: {batch_status_text(status)}")
        return (
            message.attributes & ATTRIBUTE_CODEC,
            message.magic,
            message.timestamp if is_append_time(&message) else None,
            message.value.start - <const uint8_t*>view.buf,
            max(message.value.length, 0),
        )
    finally:
        PyBuffer_Release(&view)
