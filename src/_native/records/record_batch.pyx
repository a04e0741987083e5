"""Record batches of version 2, the format of produce, storage and fetch: read, validated, written.

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

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from broker._native.kernel.big_endian cimport store_uint16, store_uint32, store_uint64
from broker._native.kernel.checksum cimport crc32c_extend
from broker._native.kernel.cursor cimport (
    READ_DONE,
    Cursor,
    cursor_take,
    cursor_varint,
    load_int16,
    load_int32,
    load_int64,
    load_uint32,
)
from broker._native.records.record_walk cimport records_are_valid

from broker.model import limits

cdef int64_t DECOMPRESSION_RATIO_MAX = limits.DECOMPRESSION_RATIO_MAX
cdef int64_t DECOMPRESSED_BYTES_MIN = limits.DECOMPRESSED_BYTES_MIN
cdef int64_t RECORD_BYTES_MIN = limits.RECORD_BYTES_MIN

STATUS_TEXTS = {
    BATCH_EMPTY: "no batch",
    BATCH_TRUNCATED: "a batch cut short",
    BATCH_LENGTH: "a length that no batch has",
    BATCH_NOT_ALONE: "bytes after the batch",
    BATCH_MAGIC: "a magic other than 2",
    BATCH_CRC: "a CRC that does not fit",
    BATCH_COUNT: "counts that do not fit the records",
    BATCH_ATTRIBUTES: "attributes a client may not set",
    BATCH_RECORDS: "records that do not fit their lengths, count or offsets",
}


cdef str batch_status_text(BatchStatus status):
    return STATUS_TEXTS[status]


cdef BatchStatus batch_header(Cursor* cursor, BatchInfo* info) noexcept nogil:
    """Read the header of the batch at the cursor and step over the whole batch.

    When the batch is incomplete, `info` has the header if that is complete, else a size of 0.
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
    # Steps from record to record of an uncompressed batch by their lengths: 2-3 ns each.
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
    """Check that `data` is exactly one batch that a client may send, and read its header.

    Of compressed records only the count is checked, against what may be in the batch:
    record_checks.pyx or core/logs/recompression.py checks the records.
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
    if info.attributes & ATTRIBUTE_CODEC == 0:
        cursor.next = data + BATCH_HEADER_SIZE
        cursor.left = info.size - BATCH_HEADER_SIZE
        return BATCH_OK if records_are_valid(cursor, info.record_count) else BATCH_RECORDS
    return BATCH_OK if info.record_count <= compressed_records_max(info) else BATCH_COUNT


cdef int64_t compressed_records_max(BatchInfo* info) noexcept nogil:
    # At most as many as fit into the largest allowed decompressed size.
    cdef int64_t decompressed_max = DECOMPRESSION_RATIO_MAX * <int64_t>info.size
    return max(decompressed_max, DECOMPRESSED_BYTES_MIN) // RECORD_BYTES_MIN


cdef void batch_store_header(uint8_t* batch, BatchInfo* info) noexcept nogil:
    """Write the header of a batch whose records are in place, and set the CRC of `info`."""
    store_uint64(batch, info.base_offset)
    store_uint32(batch + 8, <uint32_t>(info.size - BATCH_LENGTH_END))
    store_uint32(batch + 12, info.leader_epoch)
    batch[16] = <uint8_t>info.magic
    store_uint16(batch + 21, info.attributes)
    store_uint32(batch + 23, info.last_offset_delta)
    store_uint64(batch + 27, info.base_timestamp)
    store_uint64(batch + 35, info.max_timestamp)
    store_uint64(batch + 43, info.producer_id)
    store_uint16(batch + 51, info.producer_epoch)
    store_uint32(batch + 53, info.base_sequence)
    store_uint32(batch + 57, info.record_count)
    info.crc = crc32c_extend(0, batch + BATCH_CRC_START, info.size - BATCH_CRC_START)
    store_uint32(batch + 17, info.crc)


cdef void batch_assign(uint8_t* batch, int64_t base_offset, int32_t leader_epoch) noexcept nogil:
    """Set base offset and leader epoch of an accepted batch; the CRC covers neither."""
    store_uint64(batch, base_offset)
    store_uint32(batch + 12, leader_epoch)


def validate(bytes data):
    """Return None when `data` is one batch that a client may send, else what is wrong with it."""
    cdef BatchInfo info
    cdef BatchStatus status = batch_validate(
        <const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), &info)
    return None if status == BATCH_OK else batch_status_text(status)
