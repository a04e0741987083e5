"""Cursus's batch of records: decoding to rows of a record batch, and encoding.

                  current layout            original document
    magic         u16 BA7C
    topic         u16 length and bytes
    partition     i32                       u16 length and decimal digits
    acks          u8 length and text        u16 length and text
    idempotent    u8
    seqStart      u64, seqEnd u64, count i32

    a record      u64 offset, u64 seqNum, producerId and key (u16 length and bytes each), i64 epoch,
                  u32 length and payload, u16 length and eventType, u32 schemaVersion,
                  u64 aggregateVersion, u16 length and metadata

All integers are big-endian. Both layouts are tried, the likelier one first: what follows the topic
is either the upper half of a small partition number, or the length of a partition in digits. A
batch is valid only as a whole, and nothing may follow it.

Fields that Kafka does not have are stored as record headers unless they are empty or zero, numbers
as decimal digits.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport INT64_MAX, SIZE_MAX, uint16_t
from libc.string cimport memcmp, memcpy

from broker._native.kernel.big_endian cimport store_uint16, store_uint32, store_uint64
from broker._native.kernel.cursor cimport (
    READ_DONE,
    cursor_int32,
    cursor_int64,
    cursor_take,
    cursor_uint8,
    cursor_uint16,
    cursor_uint32,
)
from broker._native.kernel.decimal cimport parse_digits, store_unsigned

from broker.model import limits
from broker.model.errors import Corrupt, LimitExceeded, Truncated

cdef enum:
    MAGIC = 0xBA7C
    PARTITION_DIGITS_MAX = 10
    ACKS_SIZE_MAX = 3             # "all"

cdef uint64_t FNV_OFFSET = 0xCBF29CE484222325
cdef uint64_t FNV_PRIME = 0x100000001B3
cdef int32_t RECORDS_MAX = limits.CURSUS_BATCH_RECORDS_MAX

# Bytes of a record in a frame without its texts: key, payload, and three of its headers.
RECORD_BYTES_MIN = RECORD_SIZE_MIN

PRODUCER_ID = b"cursus.producer_id"
SEQUENCE = b"cursus.seq_num"
EPOCH = b"cursus.epoch"
EVENT_TYPE = b"cursus.event_type"
SCHEMA_VERSION = b"cursus.schema_version"
AGGREGATE_VERSION = b"cursus.aggregate_version"
METADATA = b"cursus.metadata"
SNAPSHOT_VERSION = b"cursus.snapshot_version"   # of a snapshot of a stream


# ---- bytes to records --------------------------------------------------------------------------

cdef inline bint take_text(Cursor* cursor, size_t size, Text* text) noexcept nogil:
    text.data = cursor_take(cursor, size)
    text.size = size
    return text.data != NULL


cdef inline bint take_uint64(Cursor* cursor, uint64_t* value) noexcept nogil:
    return cursor_int64(cursor, <int64_t*>value) == READ_DONE


cdef inline bint take_short_text(Cursor* cursor, Text* text) noexcept nogil:
    cdef uint16_t size = 0
    return cursor_uint16(cursor, &size) == READ_DONE and take_text(cursor, size, text)


cdef int64_t decimal(Text digits) noexcept nogil:
    """Return the number that at most PARTITION_DIGITS_MAX digits are; -1 for anything else."""
    cdef uint64_t number = 0
    if not 0 < digits.size <= PARTITION_DIGITS_MAX or not parse_digits(
            digits.data, digits.size, <uint64_t>INT64_MAX, &number):
        return -1
    return <int64_t>number


cdef CursusStatus cursus_head(Cursor* cursor, bint is_original, CursusHead* head) noexcept nogil:
    """Read the header, in one of the layouts."""
    cdef uint16_t magic = 0
    cdef uint8_t acks_size = 0, idempotent = 0
    cdef int32_t partition = 0
    cdef Text digits
    head.is_original = is_original
    if cursor_uint16(cursor, &magic) != READ_DONE or magic != MAGIC:
        return CURSUS_MAGIC
    if not take_short_text(cursor, &head.topic):
        return CURSUS_HEAD
    if is_original:
        if not take_short_text(cursor, &digits):
            return CURSUS_HEAD
        head.partition = decimal(digits)
        if head.partition < 0 or not take_short_text(cursor, &head.acks):
            return CURSUS_HEAD
        if head.acks.size > ACKS_SIZE_MAX:
            return CURSUS_HEAD
    else:
        if cursor_int32(cursor, &partition) != READ_DONE:
            return CURSUS_HEAD
        head.partition = partition
        if (cursor_uint8(cursor, &acks_size) != READ_DONE
                or not take_text(cursor, acks_size, &head.acks)):
            return CURSUS_HEAD
    if (cursor_uint8(cursor, &idempotent) != READ_DONE or idempotent > 1
            or not take_uint64(cursor, &head.seq_start)
            or not take_uint64(cursor, &head.seq_end)
            or cursor_int32(cursor, &head.count) != READ_DONE):
        return CURSUS_HEAD
    head.is_idempotent = idempotent
    return CURSUS_OK


cdef bint cursus_record(Cursor* cursor, CursusRecord* record) noexcept nogil:
    """Read one record; return False if it is cut short."""
    cdef uint32_t size = 0
    return (
        take_uint64(cursor, &record.offset)
        and take_uint64(cursor, &record.sequence)
        and take_short_text(cursor, &record.producer_id)
        and take_short_text(cursor, &record.key)
        and cursor_int64(cursor, &record.epoch) == READ_DONE
        and cursor_uint32(cursor, &size) == READ_DONE
        and take_text(cursor, size, &record.payload)
        and take_short_text(cursor, &record.event_type)
        and cursor_uint32(cursor, &record.schema_version) == READ_DONE
        and take_uint64(cursor, &record.aggregate_version)
        and take_short_text(cursor, &record.metadata)
    )


cdef CursusStatus check_layout(
        Cursor body, bint is_original, CursusHead* head, Cursor* records,
        CursusRecord* last) noexcept nogil:
    cdef CursusStatus status = cursus_head(&body, is_original, head)
    cdef int32_t _record
    if status != CURSUS_OK:
        return status
    if (not 0 <= head.count <= RECORDS_MAX
            or <size_t>head.count > body.left // RECORD_SIZE_MIN):
        return CURSUS_COUNT
    records[0] = body
    for _record in range(head.count):
        if not cursus_record(&body, last):
            return CURSUS_RECORDS
    return CURSUS_OK if body.left == 0 else CURSUS_LEFT_OVER


cdef bint looks_original(Cursor body) noexcept nogil:
    """Return whether the topic is followed by a partition in digits."""
    cdef uint16_t magic = 0
    cdef Text topic, digits
    return (
        cursor_uint16(&body, &magic) == READ_DONE
        and take_short_text(&body, &topic)
        and take_short_text(&body, &digits)
        and decimal(digits) >= 0
    )


cdef CursusStatus cursus_check(
        Cursor body, CursusHead* head, Cursor* records, CursusRecord* last) noexcept nogil:
    """Check a whole batch in its layout; set its header, the start of its records, the last record.

    The status of a batch that has neither layout is that of the likelier one.
    """
    cdef bint is_original = looks_original(body)
    cdef CursusStatus status = check_layout(body, is_original, head, records, last)
    cdef CursusHead other
    if status == CURSUS_OK or status == CURSUS_MAGIC:
        return status
    if check_layout(body, not is_original, &other, records, last) == CURSUS_OK:
        head[0] = other
        return CURSUS_OK
    return status


cdef uint64_t cursus_hash(Text key) noexcept nogil:
    """Return the hash by which the original broker partitions keys: FNV-1a of 64 bits."""
    cdef uint64_t number = FNV_OFFSET
    cdef size_t i
    for i in range(key.size):
        number = (number ^ key.data[i]) * FNV_PRIME
    return number


def fnv_1a_64(bytes key not None):
    """Return the hash by which the original broker partitions keys."""
    return cursus_hash(text_of(key, <size_t>-1))


cdef bytes object_of(Text text):
    return PyBytes_FromStringAndSize(<const char*>text.data, <Py_ssize_t>text.size)


cdef inline bint is_same(Text one, Text other) noexcept nogil:
    return one.size == other.size and memcmp(one.data, other.data, one.size) == 0


@cython.final
cdef class CursusBatch:
    """A received batch, whose records are taken in order.

    Attributes:
        topic, partition, acks, is_idempotent, seq_start, seq_end, count: of the header.
        is_original: whether the header has the layout of the original document.
        producer_id, epoch: of the last record; empty and 0 without records.
    """

    cdef readonly bytes topic
    cdef readonly int64_t partition
    cdef readonly bytes acks
    cdef readonly bint is_idempotent
    cdef readonly bint is_original
    cdef readonly uint64_t seq_start
    cdef readonly uint64_t seq_end
    cdef readonly int32_t count
    cdef readonly bytes producer_id
    cdef readonly int64_t epoch
    cdef bytes body
    cdef Cursor records       # in `body`: those not taken yet
    cdef int32_t left
    cdef Cursor all_records

    def __cinit__(self, bytes body not None):
        """Read a batch.

        Raises:
            Truncated: it is shorter than its lengths and counts say.
            Corrupt: it has another magic, a wrong count, or bytes after the last record.
        """
        cdef Cursor cursor
        cdef CursusHead head
        cdef CursusRecord last
        cdef CursusStatus status
        cursor.next = <const uint8_t*>PyBytes_AS_STRING(body)
        cursor.left = <size_t>PyBytes_GET_SIZE(body)
        status = cursus_check(cursor, &head, &self.all_records, &last)
        if status == CURSUS_MAGIC:
            raise Corrupt("the batch does not begin with BA7C")
        elif status == CURSUS_HEAD:
            raise Truncated("the batch ends within its header, or no layout has such a header")
        elif status == CURSUS_COUNT:
            raise Corrupt(f"a count of {head.count} records does not fit the batch")
        elif status == CURSUS_RECORDS:
            raise Truncated("the batch ends within a record")
        elif status == CURSUS_LEFT_OVER:
            raise Corrupt("something follows the last record of the batch")
        self.body = body
        self.topic = object_of(head.topic)
        self.partition = head.partition
        self.acks = object_of(head.acks)
        self.is_idempotent = head.is_idempotent
        self.is_original = head.is_original
        self.seq_start = head.seq_start
        self.seq_end = head.seq_end
        self.count = self.left = head.count
        self.records = self.all_records
        self.producer_id = b""
        if head.count > 0:
            self.producer_id = object_of(last.producer_id)
            self.epoch = last.epoch

    def rows(self, int32_t count_max):
        """Return up to `count_max` next records as rows of the codec: (key, value, headers).

        An empty key becomes null; the headers of a record without any are None.
        """
        cdef list rows = []
        cdef CursusRecord record
        cdef Text last_id
        cdef tuple id_header = None
        last_id.data = NULL
        last_id.size = 0
        while self.left > 0 and count_max > 0:
            if not cursus_record(&self.records, &record):
                raise AssertionError("a batch that was checked ends within a record")
            self.left -= 1
            count_max -= 1
            if record.producer_id.size == 0:
                id_header = None
            elif id_header is None or not is_same(record.producer_id, last_id):
                id_header = (PRODUCER_ID, object_of(record.producer_id))
            last_id = record.producer_id
            key = object_of(record.key) if record.key.size > 0 else None
            rows.append((key, object_of(record.payload), headers_of(&record, id_header)))
        return rows

    def runs(self, int32_t runs_max):
        """Return the runs of sequences: (producer id, epoch, first, last sequence, record count).

        A run is consecutive records of one producer with consecutive sequences. First and last are
        0 for records without a sequence or without a producer. Raises LimitExceeded for more than
        `runs_max` runs.
        """
        cdef list runs = []
        cdef Cursor cursor = self.all_records
        cdef CursusRecord record
        cdef Text run_id
        cdef int64_t run_epoch = 0
        cdef uint64_t first = 0, last = 0
        cdef bint is_checked = False, follows, is_open = False
        cdef int32_t _record, count = 0
        run_id.data = NULL
        run_id.size = 0
        for _record in range(self.count):
            if not cursus_record(&cursor, &record):
                raise AssertionError("a batch that was checked ends within a record")
            is_checked = record.sequence > 0 and record.producer_id.size > 0
            if not is_open:
                follows = False
            elif not is_checked:
                follows = last == 0
            else:
                follows = (
                    last > 0 and record.sequence == last + 1 and record.epoch == run_epoch
                    and is_same(record.producer_id, run_id))
            if follows:
                last = record.sequence if is_checked else 0
                count += 1
                continue
            if is_open:
                runs.append((object_of(run_id), run_epoch, first, last, count))
                if len(runs) >= runs_max:
                    raise LimitExceeded(f"more than {runs_max} runs of sequences in a batch")
            is_open = True
            count = 1
            run_epoch = record.epoch
            run_id = record.producer_id
            first = last = record.sequence if is_checked else 0
        if is_open:
            runs.append((object_of(run_id), run_epoch, first, last, count))
        return runs


cdef list headers_of(CursusRecord* record, tuple id_header):
    cdef list headers = None
    if not (id_header is None and record.sequence == 0 and record.epoch == 0
            and record.event_type.size == 0 and record.schema_version == 0
            and record.aggregate_version == 0 and record.metadata.size == 0):
        headers = []
        if id_header is not None:
            headers.append(id_header)
        if record.sequence != 0:
            headers.append((SEQUENCE, b"%d" % record.sequence))
        if record.epoch != 0:
            headers.append((EPOCH, b"%d" % record.epoch))
        if record.event_type.size > 0:
            headers.append((EVENT_TYPE, object_of(record.event_type)))
        if record.schema_version != 0:
            headers.append((SCHEMA_VERSION, b"%d" % record.schema_version))
        if record.aggregate_version != 0:
            headers.append((AGGREGATE_VERSION, b"%d" % record.aggregate_version))
        if record.metadata.size > 0:
            headers.append((METADATA, object_of(record.metadata)))
    return headers


# ---- records to bytes --------------------------------------------------------------------------

cdef uint64_t unsigned_of(Text digits, uint64_t highest) noexcept nogil:
    """Return the number that these digits are; 0 if they are none, or it exceeds `highest`."""
    cdef uint64_t number = 0
    return number if parse_digits(digits.data, digits.size, highest, &number) else 0


cdef int64_t signed_of(Text digits) noexcept nogil:
    """Return the number that digits with an optional minus are, or 0."""
    cdef uint64_t number
    if digits.size > 0 and digits.data[0] == c'-':
        digits.data += 1
        digits.size -= 1
        number = unsigned_of(digits, <uint64_t>INT64_MAX + 1)
        return -<int64_t>(number - 1) - 1 if number > 0 else 0
    return <int64_t>unsigned_of(digits, <uint64_t>INT64_MAX)


cdef Text text_of(bytes data, size_t size_max) noexcept:
    """Return the bytes of a value; none of a value that is longer than its field can be."""
    cdef Text text
    text.data = NULL
    text.size = 0
    if data is not None and <size_t>PyBytes_GET_SIZE(data) <= size_max:
        text.data = <const uint8_t*>PyBytes_AS_STRING(data)
        text.size = <size_t>PyBytes_GET_SIZE(data)
    return text


cdef inline uint8_t* put(uint8_t* at, Text text) noexcept nogil:
    if text.size > 0:
        memcpy(at, text.data, text.size)
    return at + text.size


cdef inline uint8_t* put_short(uint8_t* at, Text text) noexcept nogil:
    store_uint16(at, <uint16_t>text.size)
    return put(at + 2, text)


cdef uint8_t* head_put(
        uint8_t* at, Text topic, uint32_t partition, bint is_original) noexcept nogil:
    """Write the header up to seqStart, at most HEAD_SIZE_MAX bytes and the topic; return its end.

    Acks is "1", as in the original broker.
    """
    cdef uint8_t* end
    store_uint16(at, MAGIC)
    at = put_short(at + 2, topic)
    if is_original:
        end = store_unsigned(at + 2, partition)
        store_uint16(at, <uint16_t>(end - at - 2))
        store_uint16(end, 1)
        at = end + 2
    else:
        store_uint32(at, partition)
        at[4] = 1
        at += 5
    at[0] = c'1'
    at[1] = 0
    return at + 2


cdef void counts_put(
        uint8_t* at, uint64_t seq_start, uint64_t seq_end, int32_t count) noexcept nogil:
    """Write the rest of the header, COUNTS_SIZE bytes."""
    store_uint64(at, seq_start)
    store_uint64(at + 8, seq_end)
    store_uint32(at + 16, <uint32_t>count)


cdef size_t record_size(const CursusRecord* record) noexcept nogil:
    """Return the bytes that a record takes."""
    return (RECORD_SIZE_MIN + record.payload.size + record.key.size + record.producer_id.size
            + record.event_type.size + record.metadata.size)


cdef void record_put(uint8_t* at, const CursusRecord* record) noexcept nogil:
    """Write a record, where `record_size` bytes are free."""
    store_uint64(at, record.offset)
    store_uint64(at + 8, record.sequence)
    at = put_short(at + 16, record.producer_id)
    at = put_short(at, record.key)
    store_uint64(at, <uint64_t>record.epoch)
    store_uint32(at + 8, <uint32_t>record.payload.size)
    at = put(at + 12, record.payload)
    at = put_short(at, record.event_type)
    store_uint32(at, record.schema_version)
    store_uint64(at + 4, record.aggregate_version)
    put_short(at + 12, record.metadata)


def sequence_of(list headers not None):
    """Return (producer id, epoch, sequence) from a record's headers; None without a sequence."""
    cdef bytes name, value, producer_id = None
    cdef uint64_t sequence = 0
    cdef int64_t epoch = 0
    for name, value in headers:
        if value is None:
            continue
        if name == PRODUCER_ID:
            producer_id = value
        elif name == SEQUENCE:
            sequence = unsigned_of(text_of(value, SIZE_MAX), <uint64_t>-1)
        elif name == EPOCH:
            epoch = signed_of(text_of(value, SIZE_MAX))
    if not producer_id or sequence == 0:
        return None
    return producer_id, epoch, sequence
