"""Record batches, version 2: what a produce request carries, a segment stores and a fetch returns.

Layout (big-endian; Kafka protocol guide, "Record Batch"; KIP-98):

     0  int64   base offset             patched at append, outside the CRC
     8  int32   batch length            bytes that follow this field
    12  int32   partition leader epoch  patched at append, outside the CRC
    16  int8    magic = 2
    17  uint32  CRC-32C                 of everything from the attributes to the end
    21  int16   attributes              bits 0-2 codec (none gzip snappy lz4 zstd), 3 log append
                                        time, 4 transactional, 5 control, 6 delete horizon
    23  int32   last offset delta
    27  int64   base timestamp, ms
    35  int64   max timestamp, ms
    43  int64   producer id (-1 none)
    51  int16   producer epoch
    53  int32   base sequence
    57  int32   record count
    61  records, compressed as a whole when a codec is set

A record: varint length | int8 attributes | varlong timestamp delta | varint offset delta |
varint key length (-1 null) | key | varint value length | value | varint header count | headers
(varint key length | key | varint value length | value).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.kernel.big_endian cimport store_uint16, store_uint32, store_uint64
from broker._native.kernel.crc32c cimport crc32c_extend
from broker._native.kernel.cursor cimport (
    READ_DONE,
    Cursor,
    cursor_take,
    cursor_varint,
    cursor_varlong,
    load_int16,
    load_int32,
    load_int64,
    load_uint32,
)

from broker.model.errors import Corrupt

cdef dict STATUS_NAMES = {
    BATCH_EMPTY: "no batch",
    BATCH_TRUNCATED: "a batch cut short",
    BATCH_LENGTH: "a length that no batch has",
    BATCH_NOT_ALONE: "bytes after the batch",
    BATCH_MAGIC: "a magic other than 2",
    BATCH_CRC: "a CRC that does not fit",
    BATCH_COUNT: "counts that do not fit the records",
    BATCH_ATTRIBUTES: "attributes a client may not set",
}


cdef str batch_status_text(BatchStatus status):
    return STATUS_NAMES[status]


cdef BatchStatus batch_header(Cursor* cursor, BatchInfo* info) noexcept nogil:
    """Read the header of the batch at the cursor and step over the whole batch.

    When the batch is cut short, `info` has the header if all of that is there, else a size of 0.
    """
    cdef const uint8_t* head = cursor.next
    cdef int32_t length
    info.size = 0
    if cursor.left == 0:
        return BATCH_EMPTY
    if cursor.left < BATCH_HEADER_SIZE:
        return BATCH_TRUNCATED
    length = load_int32(cursor.next + 8)
    if length < BATCH_HEADER_SIZE - BATCH_LENGTH_END or length > BATCH_SIZE_MAX:
        return BATCH_LENGTH
    info.size = <size_t>length + BATCH_LENGTH_END
    info.base_offset = load_int64(head)
    info.leader_epoch = load_int32(head + 12)
    info.magic = <int8_t>head[16]
    info.crc = load_uint32(head + 17)
    info.attributes = load_int16(head + 21)
    info.last_offset_delta = load_int32(head + 23)
    info.base_timestamp = load_int64(head + 27)
    info.max_timestamp = load_int64(head + 35)
    info.producer_id = load_int64(head + 43)
    info.producer_epoch = load_int16(head + 51)
    info.base_sequence = load_int32(head + 53)
    info.record_count = load_int32(head + 57)
    if cursor_take(cursor, info.size) == NULL:
        return BATCH_TRUNCATED
    return BATCH_OK if info.magic == 2 else BATCH_MAGIC


cdef BatchStatus batch_check_crc(const uint8_t* batch, BatchInfo* info) noexcept nogil:
    """Compare the CRC of a batch whose header has been read."""
    cdef uint32_t crc = crc32c_extend(0, batch + BATCH_CRC_START, info.size - BATCH_CRC_START)
    return BATCH_OK if crc == info.crc else BATCH_CRC


cdef bint batch_records_fit(const uint8_t* batch, BatchInfo* info) noexcept nogil:
    # Steps from record to record of an uncompressed batch: 2-3 ns each (performance.md 5.1).
    cdef Cursor cursor
    cdef int32_t length = 0
    cdef int32_t _i
    cursor.next = batch + BATCH_HEADER_SIZE
    cursor.left = info.size - BATCH_HEADER_SIZE
    for _i in range(info.record_count):
        if cursor_varint(&cursor, &length) != READ_DONE or length < 0:
            return False
        if cursor_take(&cursor, <size_t>length) == NULL:
            return False
    return cursor.left == 0


cdef BatchStatus batch_validate(const uint8_t* data, size_t size, BatchInfo* info) noexcept nogil:
    """Check that `data` is exactly one batch a client may send, and read its header.

    Compressed records are not looked at: their count is taken from the header, as a fetch that
    never decodes them would (protocols/kafka.md 2.3).
    """
    cdef Cursor cursor
    cdef BatchStatus status
    cursor.next = data
    cursor.left = size
    status = batch_header(&cursor, info)
    if status != BATCH_OK:
        return status
    if cursor.left > 0:
        return BATCH_NOT_ALONE
    status = batch_check_crc(data, info)
    if status != BATCH_OK:
        return status
    if info.record_count <= 0 or info.last_offset_delta != info.record_count - 1:
        return BATCH_COUNT
    if info.attributes & ATTRIBUTE_CONTROL or info.attributes & ATTRIBUTE_CODEC > 4:
        return BATCH_ATTRIBUTES
    if info.producer_id >= 0 and (info.producer_epoch < 0 or info.base_sequence < 0):
        return BATCH_COUNT
    if info.attributes & ATTRIBUTE_CODEC == 0 and not batch_records_fit(data, info):
        return BATCH_COUNT
    return BATCH_OK


cdef void batch_assign(uint8_t* batch, int64_t base_offset, int32_t leader_epoch) noexcept nogil:
    """Give an accepted batch its place; neither field is under the CRC."""
    store_uint64(batch, base_offset)
    store_uint32(batch + 12, leader_epoch)


# ---- Python's face: the coordinators' own small batches, tools and tests -------------------------


def validate(bytes data):
    """Return None when `data` is one batch a client may send, else what is wrong with it."""
    cdef BatchInfo info
    cdef BatchStatus status = batch_validate(
        <const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), &info)
    return None if status == BATCH_OK else batch_status_text(status)


def header(bytes data, Py_ssize_t position=0):
    """Return the header of the batch at a position as a dict.

    Raises CodecError when the bytes there are not a whole batch of version 2.
    """
    cdef BatchInfo info
    read_header(data, position, &info)
    return info


cdef int read_header(bytes data, Py_ssize_t position, BatchInfo* info) except -1:
    cdef Cursor cursor
    cdef BatchStatus status
    if position < 0 or position > PyBytes_GET_SIZE(data):
        raise Corrupt(f"batch: position {position} is outside of {len(data)} bytes")
    cursor.next = <const uint8_t*>PyBytes_AS_STRING(data) + position
    cursor.left = PyBytes_GET_SIZE(data) - position
    status = batch_header(&cursor, info)
    if status != BATCH_OK:
        raise Corrupt(f"batch: expected a whole batch at byte {position}, found "
                      f"{batch_status_text(status)}")
    return 0


cdef bytes varint(int64_t value):
    cdef uint8_t encoded[10]
    cdef int size = 0
    cdef unsigned long long folded = (<unsigned long long>value << 1) ^ <unsigned long long>(
        value >> 63)
    while folded >= 0x80:
        encoded[size] = <uint8_t>(folded | 0x80)
        folded >>= 7
        size += 1
    encoded[size] = <uint8_t>folded
    return PyBytes_FromStringAndSize(<char*>encoded, size + 1)


cdef bytes nullable(value):
    return varint(-1) if value is None else varint(len(value)) + value


def build(records, int64_t timestamp, *, int64_t base_offset=0, int32_t leader_epoch=0,
          bint is_control=False, bint is_transactional=False, int64_t producer_id=-1,
          int16_t producer_epoch=-1, int32_t base_sequence=-1, int16_t codec=0, compress=None):
    """Return one batch of (key, value, headers) records that share one timestamp (ms).

    `compress` is applied to the records as a whole and `codec` names it (0 none ... 4 zstd).
    """
    cdef uint8_t* head
    encoded = []
    for delta, (key, value, headers) in enumerate(records):
        body = b"".join((
            b"\x00\x00", varint(delta), nullable(key), nullable(value), varint(len(headers)),
            *(varint(len(name)) + name + nullable(content) for name, content in headers)))
        encoded.append(varint(len(body)) + body)
    payload = b"".join(encoded)
    if compress is not None:
        payload = bytes(compress(payload))
    batch = bytes(BATCH_HEADER_SIZE) + payload
    head = <uint8_t*>PyBytes_AS_STRING(batch)  # ours alone until it is returned
    store_uint64(head, base_offset)
    store_uint32(head + 8, len(batch) - BATCH_LENGTH_END)
    store_uint32(head + 12, leader_epoch)
    head[16] = 2
    store_uint16(head + 21, codec | (ATTRIBUTE_CONTROL if is_control else 0) | (
        ATTRIBUTE_TRANSACTIONAL if is_transactional else 0))
    store_uint32(head + 23, len(encoded) - 1)
    store_uint64(head + 27, timestamp)
    store_uint64(head + 35, timestamp)
    store_uint64(head + 43, producer_id)
    store_uint16(head + 51, producer_epoch)
    store_uint32(head + 53, base_sequence)
    store_uint32(head + 57, len(encoded))
    store_uint32(head + 17, crc32c_extend(0, head + BATCH_CRC_START, len(batch) - BATCH_CRC_START))
    return batch


def iterate(bytes data, decompress=None):
    """Yield (offset, timestamp, key, value, headers) of every record of every whole batch.

    `decompress(codec, payload)` is asked for the records of a compressed batch; it bounds what it
    returns. Raises CodecError where the bytes are not what their lengths say.
    """
    cdef BatchInfo info
    cdef Py_ssize_t position = 0
    while position < PyBytes_GET_SIZE(data):
        read_header(data, position, &info)
        payload = data[position + BATCH_HEADER_SIZE:position + <Py_ssize_t>info.size]
        codec = info.attributes & ATTRIBUTE_CODEC
        if codec:
            if decompress is None:
                raise Corrupt(f"batch: codec {codec} at byte {position} needs a decompressor")
            payload = decompress(codec, payload)
        yield from batch_records(payload, info)
        position += <Py_ssize_t>info.size


cdef list batch_records(bytes payload, BatchInfo info):
    cdef Cursor cursor, record
    cdef int32_t length = 0, i
    records = []
    cursor.next = <const uint8_t*>PyBytes_AS_STRING(payload)
    cursor.left = PyBytes_GET_SIZE(payload)
    for i in range(info.record_count):
        if cursor_varint(&cursor, &length) != READ_DONE or length < 0:
            raise Corrupt(f"batch: record {i} of {info.record_count} has no length")
        record.next = cursor_take(&cursor, <size_t>length)
        record.left = <size_t>length
        if record.next == NULL:
            raise Corrupt(f"batch: record {i} of {info.record_count} is cut short")
        records.append(read_record(&record, &info))
        if record.left > 0:
            raise Corrupt(f"batch: record {i} is {record.left} bytes longer than its fields")
    if cursor.left > 0:
        raise Corrupt(f"batch: {cursor.left} bytes after {info.record_count} records")
    return records


cdef tuple read_record(Cursor* record, BatchInfo* info):
    cdef int32_t offset_delta = 0, header_count = 0, _i
    cdef int64_t timestamp_delta = 0, timestamp
    if (cursor_take(record, 1) == NULL
            or cursor_varlong(record, &timestamp_delta) != READ_DONE
            or cursor_varint(record, &offset_delta) != READ_DONE):
        raise Corrupt("batch: a record is shorter than its fields")
    key = read_nullable(record)
    value = read_nullable(record)
    if cursor_varint(record, &header_count) != READ_DONE or header_count < 0:
        raise Corrupt(f"batch: a record has a header count of {header_count}")
    headers = []
    for _i in range(header_count):
        name = read_nullable(record)
        headers.append((name, read_nullable(record)))
    timestamp = info.max_timestamp
    if not info.attributes & ATTRIBUTE_LOG_APPEND_TIME:
        # Both are a client's: the sum may wrap, as Java's does.
        timestamp = <int64_t>(<uint64_t>info.base_timestamp + <uint64_t>timestamp_delta)
    return info.base_offset + offset_delta, timestamp, key, value, headers


cdef object read_nullable(Cursor* cursor):
    cdef int32_t length = 0
    cdef const uint8_t* content
    if cursor_varint(cursor, &length) != READ_DONE or length < -1:
        raise Corrupt(f"batch: a field has a length of {length}")
    if length == -1:
        return None
    content = cursor_take(cursor, <size_t>length)
    if content == NULL:
        raise Corrupt(f"batch: a field of {length} bytes, {cursor.left} are left")
    return PyBytes_FromStringAndSize(<const char*>content, length)
