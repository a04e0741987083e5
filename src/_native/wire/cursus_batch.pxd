from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from broker._native.kernel.cursor cimport Cursor

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


# Why bytes are no batch of a layout.
cdef enum CursusStatus:
    CURSUS_OK
    CURSUS_MAGIC
    CURSUS_HEAD               # they end within the header, or it is of another layout
    CURSUS_COUNT              # negative, too many, or more than there can be
    CURSUS_RECORDS            # they end within a record
    CURSUS_LEFT_OVER          # something follows the last record


cdef CursusStatus cursus_head(Cursor* cursor, bint is_original, CursusHead* head) noexcept nogil
cdef bint cursus_record(Cursor* cursor, CursusRecord* record) noexcept nogil
cdef CursusStatus cursus_check(
    Cursor body, CursusHead* head, Cursor* records, CursusRecord* last) noexcept nogil
