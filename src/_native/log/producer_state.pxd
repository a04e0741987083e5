from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from broker._native.records.record_batch cimport BatchInfo


# The result of comparing a producer's batch with the partition's state of that producer.
cdef enum SequenceStatus:
    SEQUENCE_NEXT         # append it
    SEQUENCE_DUPLICATE    # one of the last five: the response has the original's offset
    SEQUENCE_OUT_OF_ORDER
    SEQUENCE_FENCED       # an older epoch
    SEQUENCE_FULL         # all producers that may be kept have open transactions

cdef enum:
    PRODUCER_BATCHES_KEPT = 5   # KIP-98: as many as a client may have in flight

cdef struct ProducerBatch:
    int32_t first_sequence
    int32_t last_sequence
    int64_t base_offset
    int32_t last_offset_delta
    int64_t timestamp

cdef struct ProducerTable

cdef struct ProducerEntry:
    int64_t producer_id
    int16_t epoch
    int8_t batch_count          # how many of `batches` are filled, oldest first from `oldest`
    int8_t oldest
    bint is_restored            # by a snapshot; the batches before its last one were not looked up
    int32_t coordinator_epoch   # of the last marker, -1: none yet
    int64_t transaction_first   # first offset of the open transaction, -1: none
    int64_t updated_ms          # when the last batch came, for expiry
    ProducerTable* table
    ProducerEntry* older[2]     # neighbours in the idle lists, see ProducerTable
    ProducerEntry* newer[2]
    ProducerBatch batches[PRODUCER_BATCHES_KEPT]

# Producers without an open transaction, ordered by their last batch or marker.
cdef struct IdleList:
    ProducerEntry* oldest
    ProducerEntry* newest

# Open addressing by producer id over entries of their own. Every entry without an open transaction
# is in two idle lists: that of its table and that of all tables of the process. Zeroed memory with
# the two limits set is an empty table.
cdef struct ProducerTable:
    ProducerEntry** slots       # NULL: an empty slot
    uint32_t capacity           # 0 or a power of two
    uint32_t count
    uint32_t count_max
    int64_t expiration_ms
    IdleList idle

cdef ProducerBatch producer_batch(BatchInfo* info, int64_t base_offset) noexcept nogil
cdef void producers_free(ProducerTable* table) noexcept nogil
cdef ProducerEntry* producers_find(ProducerTable* table, int64_t producer_id) noexcept nogil
cdef SequenceStatus producers_check(
    ProducerTable* table, int64_t producer_id, int16_t epoch, int32_t first_sequence,
    int32_t record_count, int64_t now_ms, ProducerBatch* duplicate) noexcept nogil
cdef int producers_update(
    ProducerTable* table, int64_t producer_id, int16_t epoch, ProducerBatch* batch,
    int64_t now_ms) noexcept nogil
cdef void producers_complete(
    ProducerEntry* entry, const ProducerBatch* earlier, int count) noexcept nogil
cdef bint producers_have_room(ProducerTable* table, int64_t producer_id) noexcept nogil
cdef int producers_begin(
    ProducerTable* table, int64_t producer_id, int16_t epoch, int64_t first_offset,
    int64_t now_ms) noexcept nogil
cdef int producers_end(
    ProducerTable* table, int64_t producer_id, int16_t epoch, int32_t coordinator_epoch,
    int64_t now_ms) noexcept nogil
cdef dict producers_open(ProducerTable* table)
cdef int32_t sequence_add(int32_t sequence, int32_t delta) noexcept nogil
cdef list producers_ends(ProducerTable* table)
cdef tuple producers_active_one(ProducerTable* table, int64_t producer_id, int64_t now_ms)
cdef list producers_active(ProducerTable* table, int64_t now_ms)
cdef bytes producers_snapshot(ProducerTable* table)
cdef int producers_restore(
    ProducerTable* table, bytes snapshot, int64_t now_ms, int64_t wall_ms) except -2
