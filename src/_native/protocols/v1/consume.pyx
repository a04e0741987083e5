"""V1's CONSUME, natively: batches that are neither compressed nor of a transaction.

Batches are read as in a fetch, and their values are written one after the other:

    V1|7|OK|messages=<offset>:<value>,<offset>:<value> hw=<offset> escaped=[<offset> <offset>]

Unusual requests, and those that would take long, are left to the Python handler, which works in
steps.
"""

cimport cython
from libc.stdlib cimport free
from libc.string cimport memset

from broker._native.kernel.decimal cimport DECIMAL_SIZE_MAX, store_signed
from broker._native.kernel.growing cimport text_put, text_reserve, text_trim
from broker._native.log.log_page cimport (
    PAGE_NOTHING,
    PAGE_READ,
    PageStatus,
    page_read,
    page_take,
    page_trim,
)
from broker._native.log.permissions cimport MAY_READ, permits
from broker._native.log.topic_table cimport TopicEntry
from broker._native.protocols.v1.line cimport number_take, word_take
from broker._native.protocols.v1.line_text cimport value_put
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_TRANSACTIONAL,
    BATCH_OK,
)
from broker._native.records.record_walk cimport RecordFields, record_take

from broker.model import limits

cdef enum:
    COLON = 0x3A
    COMMA = 0x2C
    BLANK = 0x20
    INT32_LIMIT = 0x7FFFFFFF

cdef size_t MESSAGES_BYTES_MAX = limits.V1_CONSUME_BYTES_MAX
cdef int MESSAGES_MAX = limits.V1_CONSUME_RECORDS_MAX
cdef int64_t READ_BYTES = limits.V1_READ_BYTES_PER_STEP
cdef int64_t READ_BYTES_MAX = limits.V1_READ_BYTES_MAX


@cython.final
cdef class ConsumeReader:
    """The memory of one answer, reused for each answer."""

    def __cinit__(self):
        memset(&self.page, 0, sizeof(LogPage))
        memset(&self.reply, 0, sizeof(Text))
        memset(&self.escaped, 0, sizeof(Text))

    def __dealloc__(self):
        free(self.page.data)
        free(self.reply.data)
        free(self.escaped.data)

    cdef bint serve(self, TopicTable topics, Permissions permissions, Line* line) noexcept:
        """Write the answer to `reply`; return False if the request is left to Python."""
        cdef Cursor name
        cdef TopicEntry entry
        cdef PartitionLog log
        cdef int64_t partition = 0, offset = 0, end
        cdef bint is_served
        self.bytes_read = 0
        if not (word_take(&line.args, &name) and number_take(&line.args, &partition)
                and number_take(&line.args, &offset) and line.args.left == 0
                and partition <= INT32_LIMIT):
            return False
        entry = topics.find_name(name.next, name.left)
        if entry is None or not permits(permissions, entry, MAY_READ):
            return False
        log = entry.log_of(<int32_t>partition)
        if log is None or log.is_loading or log.is_offline or log.is_deleted:
            return False
        end = min(log.high_watermark, log.transactions.first_undecided)
        self.reply.size = self.escaped.size = 0
        self.record_count = 0
        if not text_put(&self.reply, line.head, line.head_size) or not text_put(
                &self.reply, b"OK|messages=", 12):
            return False
        self.messages_start = self.reply.size
        is_served = self.read(log, max(offset, log.log_start_offset), end) and self.finish(end - 1)
        page_trim(&self.page, 2 * <size_t>READ_BYTES)
        text_trim(&self.escaped, 2 * <size_t>READ_BYTES)
        return is_served

    cdef bint read(self, PartitionLog log, int64_t offset, int64_t end) noexcept:
        cdef PageStatus status
        cdef WalkStatus status_of_walk
        while offset < end:
            status = page_read(
                &self.page, log, offset, end, READ_BYTES, READ_BYTES_MAX - self.bytes_read)
            self.bytes_read += <int64_t>self.page.size
            if status == PAGE_NOTHING:
                return True
            if status != PAGE_READ:
                return False
            status_of_walk = self.walk(offset, end)
            if status_of_walk != WALK_DONE:
                return status_of_walk == WALK_FULL
            if self.page.next_offset <= offset:
                return False
            offset = self.page.next_offset
        return True

    cdef WalkStatus walk(self, int64_t offset, int64_t end) noexcept:
        cdef Cursor records
        cdef BatchInfo info
        cdef WalkStatus status_of_walk
        while self.page.batches.left > 0:
            if page_take(&self.page, &info, &records) != BATCH_OK:
                return WALK_NOT_SERVED
            if info.attributes & ATTRIBUTE_CONTROL:
                continue
            if info.attributes & (ATTRIBUTE_CODEC | ATTRIBUTE_TRANSACTIONAL):
                return WALK_NOT_SERVED
            status_of_walk = self.walk_records(records, &info, offset, end)
            if status_of_walk != WALK_DONE:
                return status_of_walk
        return WALK_DONE

    cdef WalkStatus walk_records(
            self, Cursor records, BatchInfo* info, int64_t offset, int64_t end) noexcept:
        cdef RecordFields fields
        cdef int64_t at
        cdef int32_t _i
        for _i in range(info.record_count):
            if not record_take(&records, &fields) or not (
                    0 <= fields.offset_delta <= info.last_offset_delta):
                return WALK_NOT_SERVED
            at = info.base_offset + fields.offset_delta
            if at < offset:
                continue
            if at >= end:
                return WALK_NOT_SERVED
            if self.record_count == MESSAGES_MAX:
                return WALK_FULL
            if not self.put(at, fields.value.start, fields.value.length):
                return WALK_NOT_SERVED
            if self.reply.size - self.messages_start > MESSAGES_BYTES_MAX:
                return self.drop_last_record()
        return WALK_DONE if records.left == 0 else WALK_NOT_SERVED

    cdef bint put(self, int64_t offset, const uint8_t* value, int32_t size) noexcept:
        cdef bint is_escaped = False
        cdef uint8_t* at
        if not text_reserve(&self.reply, DECIMAL_SIZE_MAX + 2):
            return False
        at = self.reply.data + self.reply.size
        self.last_start = self.reply.size
        self.last_escaped_start = self.escaped.size
        if self.record_count > 0:
            at[0] = COMMA
            at += 1
        at = store_signed(at, offset)
        at[0] = COLON
        self.reply.size = <size_t>(at + 1 - self.reply.data)
        self.record_count += 1
        if size > 0 and not value_put(&self.reply, value, <size_t>size, &is_escaped):
            return False
        return not is_escaped or self.note_escaped(offset)

    cdef WalkStatus drop_last_record(self) noexcept:
        # The first record may exceed the limit of a line; any other one is left for the next
        # request.
        if self.record_count > 1:
            self.reply.size = self.last_start
            self.escaped.size = self.last_escaped_start
        return WALK_FULL

    cdef bint note_escaped(self, int64_t offset) noexcept:
        cdef uint8_t* at
        if not text_reserve(&self.escaped, DECIMAL_SIZE_MAX + 1):
            return False
        at = self.escaped.data + self.escaped.size
        if self.escaped.size > 0:
            at[0] = BLANK
            at += 1
        self.escaped.size = <size_t>(store_signed(at, offset) - self.escaped.data)
        return True

    cdef bint finish(self, int64_t high_watermark) noexcept:
        cdef uint8_t* at
        if not text_put(&self.reply, b" hw=", 4) or not text_reserve(&self.reply, DECIMAL_SIZE_MAX):
            return False
        at = store_signed(self.reply.data + self.reply.size, high_watermark)
        self.reply.size = <size_t>(at - self.reply.data)
        if self.escaped.size > 0:
            if not (text_put(&self.reply, b" escaped=[", 10)
                    and text_put(&self.reply, self.escaped.data, self.escaped.size)
                    and text_put(&self.reply, b"]", 1)):
                return False
        return text_put(&self.reply, b"\n", 1)
