from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.kernel.cursor cimport Cursor

cdef enum:
    RECORD_SIZE_MIN = 48          # a record whose texts are all empty
    COUNTS_SIZE = 8 + 8 + 4       # seqStart, seqEnd, count
    HEAD_SIZE_MAX = 2 + 2 + 2 + 10 + 2 + 1 + 1 + COUNTS_SIZE  # without the topic
    SHORT_MAX = 0xFFFF            # the longest text after a u16 length


cdef struct Text:
    const uint8_t* data
    size_t size


cdef struct CursusHead:
    Text topic
    int64_t partition
    Text acks
    bint is_idempotent
    bint is_original          # the layout of the original document
    uint64_t seq_start
    uint64_t seq_end
    int32_t count


cdef struct CursusRecord:
    uint64_t offset
    uint64_t sequence
    Text producer_id
    Text key
    int64_t epoch
    Text payload
    Text event_type
    uint32_t schema_version
    uint64_t aggregate_version
    Text metadata
    bint is_snapshot          # of a stream: in no frame


# Whether bytes are a batch of a layout, or why not.
cdef enum CursusStatus:
    CURSUS_OK
    CURSUS_MAGIC
    CURSUS_HEAD               # the header is cut short, or of another layout
    CURSUS_COUNT              # negative, above the limit, or above what the bytes can hold
    CURSUS_RECORDS            # a record is cut short
    CURSUS_LEFT_OVER          # bytes follow the last record


cdef bint cursus_record(Cursor* cursor, CursusRecord* record) noexcept nogil
cdef uint64_t cursus_hash(Text key) noexcept nogil
cdef CursusStatus cursus_check(
    Cursor body, CursusHead* head, Cursor* records, CursusRecord* last) noexcept nogil
cdef uint64_t unsigned_of(Text digits, uint64_t highest) noexcept nogil
cdef int64_t signed_of(Text digits) noexcept nogil
cdef Text text_of(bytes data, size_t size_max) noexcept
cdef bytes object_of(Text text)
cdef uint8_t* head_put(
    uint8_t* at, Text topic, uint32_t partition, bint is_original) noexcept nogil
cdef void counts_put(
    uint8_t* at, uint64_t seq_start, uint64_t seq_end, int32_t count) noexcept nogil
cdef size_t record_size(const CursusRecord* record) noexcept nogil
cdef void record_put(uint8_t* at, const CursusRecord* record) noexcept nogil
