"""What a partition remembers of its producers: id, epoch and the last five batches (KIP-98).

A batch of producer P and epoch E with first sequence S is

    next          when P is unknown or has expired, or E is newer and S is 0, or S follows P's last
                  sequence
    a duplicate   when one of the last five batches has the same epoch, first and last sequence
    fenced        when E is older than the one known
    out of order  otherwise

Sequences run from 0 to 2^31-1 and start at 0 again.

The snapshot of it (Kafka's `.snapshot` file, big-endian):

    int16 version = 1 | uint32 CRC-32C of what follows | int32 count | count times
    int64 producer id | int16 epoch | int32 last sequence | int64 last offset | int32 offset delta |
    int64 timestamp | int32 coordinator epoch | int64 first offset of the open transaction (-1)

A producer of which only a marker is known has the last sequence and offset -1. One whose
transaction is open does not expire.
"""

from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from broker._native.kernel.crc32c cimport crc32c_extend

import struct as _struct

from broker.model import limits

assert PRODUCER_BATCHES_KEPT == limits.PRODUCER_BATCHES_REMEMBERED

cdef uint32_t CAPACITY_MIN = 4
_HEAD = _struct.Struct(">hIi")
_ENTRY = _struct.Struct(">qhiqiqiq")


cdef void producers_init(
        ProducerTable* table, uint32_t count_max, int64_t expiration_ms) noexcept nogil:
    table.entries = NULL
    table.capacity = 0
    table.count = 0
    table.count_max = count_max
    table.expiration_ms = expiration_ms
    table.next_expiry_ms = 0


cdef void producers_free(ProducerTable* table) noexcept nogil:
    free(table.entries)
    table.entries = NULL
    table.capacity = table.count = 0


cdef inline uint32_t slot_of(ProducerTable* table, int64_t producer_id) noexcept nogil:
    # Fibonacci hashing: ids of one block are neighbours and must not fall into neighbouring slots.
    return <uint32_t>((<uint64_t>producer_id * <uint64_t>0x9E3779B97F4A7C15) >> 32) & (
        table.capacity - 1)


cdef ProducerEntry* producers_find(ProducerTable* table, int64_t producer_id) noexcept nogil:
    """The entry of a producer, or NULL."""
    cdef uint32_t slot
    if table.capacity == 0:
        return NULL
    slot = slot_of(table, producer_id)
    while table.entries[slot].producer_id != -1:
        if table.entries[slot].producer_id == producer_id:
            return &table.entries[slot]
        slot = (slot + 1) & (table.capacity - 1)
    return NULL


cdef inline bint is_expired(
        ProducerTable* table, ProducerEntry* entry, int64_t now_ms) noexcept nogil:
    return entry.transaction_first < 0 and entry.updated_ms + table.expiration_ms < now_ms


cdef int rebuild(ProducerTable* table, uint32_t capacity, int64_t now_ms) noexcept nogil:
    # Moves every entry that has not expired into a table of `capacity` slots. -1: no memory.
    cdef ProducerEntry* old = table.entries
    cdef uint32_t old_capacity = table.capacity, slot, i
    cdef ProducerEntry* entries = <ProducerEntry*>calloc(capacity, sizeof(ProducerEntry))
    if entries == NULL:
        return -1
    for i in range(capacity):
        entries[i].producer_id = -1
    table.entries = entries
    table.capacity = capacity
    table.count = 0
    table.next_expiry_ms = now_ms + table.expiration_ms
    for i in range(old_capacity):
        if old[i].producer_id == -1 or is_expired(table, &old[i], now_ms):
            continue
        if old[i].updated_ms + table.expiration_ms < table.next_expiry_ms:
            table.next_expiry_ms = old[i].updated_ms + table.expiration_ms
        slot = slot_of(table, old[i].producer_id)
        while entries[slot].producer_id != -1:
            slot = (slot + 1) & (capacity - 1)
        entries[slot] = old[i]
        table.count += 1
    free(old)
    return 0


cdef int make_room(ProducerTable* table, int64_t now_ms) noexcept nogil:
    # Room for one more producer: at most 3/4 of the slots are taken. -1: the table is full.
    cdef uint32_t capacity = table.capacity
    if table.count >= table.count_max:
        if now_ms <= table.next_expiry_ms or rebuild(table, capacity, now_ms) < 0:
            return -1
        if table.count >= table.count_max:
            return -1
    if capacity > 0 and (table.count + 1) * 4 <= capacity * 3:
        return 0
    return rebuild(table, capacity * 2 if capacity > 0 else CAPACITY_MIN, now_ms)


cdef int32_t sequence_add(int32_t sequence, int32_t delta) noexcept nogil:
    """The sequence `delta` after another; after 2^31-1 comes 0."""
    cdef int64_t total = <int64_t>sequence + delta
    if total > INT32_MAX:
        total -= <int64_t>INT32_MAX + 1
    return <int32_t>total


cdef inline ProducerBatch* newest(ProducerEntry* entry) noexcept nogil:
    return &entry.batches[
        (entry.oldest + entry.batch_count - 1) % PRODUCER_BATCHES_KEPT]


cdef SequenceStatus producers_check(
        ProducerTable* table, int64_t producer_id, int16_t epoch, int32_t first_sequence,
        int32_t record_count, int64_t now_ms, ProducerBatch* duplicate) noexcept nogil:
    """What to do with a batch; `duplicate` is filled when it has been appended before."""
    cdef ProducerEntry* entry = producers_find(table, producer_id)
    cdef ProducerBatch* batch
    cdef int32_t last_sequence
    cdef int i
    if entry == NULL:
        return SEQUENCE_NEXT if make_room(table, now_ms) == 0 else SEQUENCE_FULL
    if is_expired(table, entry, now_ms):
        return SEQUENCE_NEXT
    if epoch < entry.epoch:
        return SEQUENCE_FENCED
    if epoch > entry.epoch:
        return SEQUENCE_NEXT if first_sequence == 0 else SEQUENCE_OUT_OF_ORDER
    if entry.batch_count == 0:   # a marker is all that is known of this epoch
        return SEQUENCE_NEXT if first_sequence == 0 else SEQUENCE_OUT_OF_ORDER
    last_sequence = sequence_add(first_sequence, record_count - 1)
    for i in range(entry.batch_count):
        batch = &entry.batches[(entry.oldest + i) % PRODUCER_BATCHES_KEPT]
        if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
            duplicate[0] = batch[0]
            return SEQUENCE_DUPLICATE
    if first_sequence == sequence_add(newest(entry).last_sequence, 1):
        return SEQUENCE_NEXT
    return SEQUENCE_OUT_OF_ORDER


cdef ProducerEntry* entry_for(
        ProducerTable* table, int64_t producer_id, int16_t epoch, int64_t now_ms) noexcept nogil:
    # The entry that a batch or marker of that epoch goes to; NULL: no room for a new producer.
    cdef ProducerEntry* entry = producers_find(table, producer_id)
    cdef uint32_t slot
    if entry == NULL:
        if make_room(table, now_ms) < 0:
            return NULL
        slot = slot_of(table, producer_id)
        while table.entries[slot].producer_id != -1:
            slot = (slot + 1) & (table.capacity - 1)
        entry = &table.entries[slot]
        entry.producer_id = producer_id
        entry.epoch = epoch
        entry.coordinator_epoch = -1
        entry.transaction_first = -1
        entry.batch_count = entry.oldest = 0
        table.count += 1
    elif epoch != entry.epoch or is_expired(table, entry, now_ms):
        entry.epoch = epoch
        entry.batch_count = entry.oldest = 0
    return entry


cdef int producers_update(
        ProducerTable* table, int64_t producer_id, int16_t epoch, ProducerBatch* batch,
        int64_t now_ms) noexcept nogil:
    """Remember an appended batch. -1 when there is no room for a new producer."""
    cdef ProducerEntry* entry = entry_for(table, producer_id, epoch, now_ms)
    if entry == NULL:
        return -1
    if entry.batch_count == PRODUCER_BATCHES_KEPT:
        entry.oldest = (entry.oldest + 1) % PRODUCER_BATCHES_KEPT
        entry.batch_count -= 1
    entry.batch_count += 1
    newest(entry)[0] = batch[0]
    entry.updated_ms = now_ms
    return 0


cdef bint producers_have_room(
        ProducerTable* table, int64_t producer_id, int64_t now_ms) noexcept nogil:
    """Whether a producer is known, or could be."""
    return producers_find(table, producer_id) != NULL or make_room(table, now_ms) == 0


cdef int producers_begin(
        ProducerTable* table, int64_t producer_id, int16_t epoch, int64_t first_offset,
        int64_t now_ms) noexcept nogil:
    """A producer's batch belongs to a transaction, which begins there if it has not before.

    A coordinator's batches have no sequence: this may be the first that is heard of the producer.
    1: it begins there, 0: it has begun before, -1: no room for a new producer.
    """
    cdef ProducerEntry* entry = entry_for(table, producer_id, epoch, now_ms)
    if entry == NULL:
        return -1
    entry.updated_ms = now_ms
    if entry.transaction_first >= 0:
        return 0
    entry.transaction_first = first_offset
    return 1


cdef int producers_end(
        ProducerTable* table, int64_t producer_id, int16_t epoch, int32_t coordinator_epoch,
        int64_t now_ms) noexcept nogil:
    """A producer's transaction was ended by a marker. -1: no room for a new producer."""
    cdef ProducerEntry* entry = entry_for(table, producer_id, epoch, now_ms)
    if entry == NULL:
        return -1
    entry.coordinator_epoch = coordinator_epoch
    entry.transaction_first = -1
    entry.updated_ms = now_ms
    return 0


cdef dict producers_open(ProducerTable* table):
    """First offset of the open transaction, by producer id."""
    cdef uint32_t i
    return {
        table.entries[i].producer_id: table.entries[i].transaction_first
        for i in range(table.capacity)
        if table.entries[i].producer_id != -1 and table.entries[i].transaction_first >= 0
    }


cdef list producers_ends(ProducerTable* table):
    """(producer id, epoch, last offset) of each producer's newest batch."""
    cdef ProducerEntry* entry
    cdef ProducerBatch* last
    cdef uint32_t i
    ends = []
    for i in range(table.capacity):
        entry = &table.entries[i]
        if entry.producer_id != -1 and entry.batch_count > 0:
            last = newest(entry)
            ends.append((entry.producer_id, entry.epoch, last.base_offset + last.last_offset_delta))
    return ends


cdef tuple producers_row(ProducerEntry* entry):
    """(id, epoch, last sequence, last timestamp, coordinator epoch, first offset of the open
    transaction) of a producer; -1 for what is not known.
    """
    last = (-1, entry.updated_ms)
    if entry.batch_count > 0:
        last = (newest(entry).last_sequence, newest(entry).timestamp)
    return (entry.producer_id, entry.epoch, *last, entry.coordinator_epoch,
            entry.transaction_first)


cdef tuple producers_active_one(ProducerTable* table, int64_t producer_id, int64_t now_ms):
    """The row of one producer; None when it is unknown or has expired."""
    cdef ProducerEntry* entry = producers_find(table, producer_id)
    if entry == NULL or is_expired(table, entry, now_ms):
        return None
    return producers_row(entry)


cdef list producers_active(ProducerTable* table, int64_t now_ms):
    """The row of each producer that has not expired."""
    cdef ProducerEntry* entry
    cdef uint32_t i
    active = []
    for i in range(table.capacity):
        entry = &table.entries[i]
        if entry.producer_id != -1 and not is_expired(table, entry, now_ms):
            active.append(producers_row(entry))
    return active


cdef bytes producers_snapshot(ProducerTable* table):
    """The table as a snapshot file; of each producer only the last batch, as Kafka keeps it."""
    cdef ProducerEntry* entry
    cdef ProducerBatch* last
    cdef uint32_t i
    body = [b""]
    for i in range(table.capacity):
        entry = &table.entries[i]
        if entry.producer_id == -1:
            continue
        if entry.batch_count == 0:
            numbers = (-1, -1, 0, entry.updated_ms)
        else:
            last = newest(entry)
            numbers = (last.last_sequence, last.base_offset + last.last_offset_delta,
                       last.last_offset_delta, last.timestamp)
        body.append(_ENTRY.pack(
            entry.producer_id, entry.epoch, *numbers, entry.coordinator_epoch,
            entry.transaction_first))
    tail = (len(body) - 1).to_bytes(4, "big") + b"".join(body)
    crc = crc32c_extend(0, <unsigned char*>PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))
    return b"\x00\x01" + crc.to_bytes(4, "big") + tail


cdef int producers_restore(ProducerTable* table, bytes snapshot, int64_t now_ms) except -2:
    """Fill an empty table from a snapshot file. -1 when it is damaged: rebuild from the log."""
    if len(snapshot) < 10:
        return -1
    version, crc, count = _HEAD.unpack_from(snapshot)
    tail = snapshot[6:]
    if (version != 1 or count < 0 or len(tail) != 4 + count * _ENTRY.size
            or crc != crc32c_extend(
                0, <unsigned char*>PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))):
        return -1
    for entry in _ENTRY.iter_unpack(tail[4:]):
        if restore_entry(table, entry, now_ms) < 0:
            return -1
    return 0


cdef int restore_entry(ProducerTable* table, tuple entry, int64_t now_ms) except -2:
    cdef ProducerBatch batch
    (producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch,
     transaction_first) = entry
    if last_sequence < 0:
        if producers_end(table, producer_id, epoch, coordinator_epoch, now_ms) < 0:
            return -1
    else:
        batch.last_sequence = last_sequence
        batch.first_sequence = (last_sequence - delta) % 0x8000_0000
        batch.base_offset = last_offset - delta
        batch.last_offset_delta = delta
        batch.timestamp = timestamp
        if producers_update(table, producer_id, epoch, &batch, now_ms) < 0:
            return -1
        producers_find(table, producer_id).coordinator_epoch = coordinator_epoch
    if transaction_first >= 0:
        return producers_begin(table, producer_id, epoch, transaction_first, now_ms)
    return 0
