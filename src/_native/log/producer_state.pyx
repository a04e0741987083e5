"""A partition's state of its producers: id, epoch and the last five batches (KIP-98).

A batch of producer P and epoch E with first sequence S is

    next          when P is unknown or has expired, or E is newer and S is 0, or S follows P's last
                  sequence
    a duplicate   when one of the last five batches has the same epoch, first and last sequence
    fenced        when E is older than the one known
    out of order  otherwise

Sequences run from 0 to 2^31-1 and then start at 0 again.

Its snapshot (Kafka's `.snapshot` file, big-endian):

    int16 version = 1 | uint32 CRC-32C of the rest | int32 count | count times
    int64 producer id | int16 epoch | int32 last sequence | int64 last offset | int32 offset delta |
    int64 timestamp | int32 coordinator epoch | int64 first offset of the open transaction (-1)

A producer of which only a marker is known has the last sequence and offset -1. The batches before
the last one are looked up in the log when a batch is out of order for the first time
(earlier_batches.pyx). That a sequence is below the last one does not tell that the log has it: a
batch of an unknown producer is accepted with any sequence, even if the one before it was refused.

The number of producers is bounded per partition and for the broker (limits.PRODUCER_IDS_...): at
the limit, a new producer evicts the one that has been idle longest, of the partition or of all
partitions. The next batch of an evicted producer is treated as that of an unknown producer. A
producer with an open transaction neither expires nor is evicted.

A producer loaded from a snapshot has been idle since the timestamp of its last batch. A timestamp
in the future, or so old that the producer would have expired, was set by the client or comes from a
copied log; such a producer counts as idle since the load.
"""

from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from broker._native.kernel.checksum cimport crc32c_extend

import struct as _struct

from broker.model import limits

assert PRODUCER_BATCHES_KEPT == limits.PRODUCER_BATCHES_REMEMBERED

cdef uint32_t CAPACITY_MIN = 4
_HEAD = _struct.Struct(">hIi")
_ENTRY = _struct.Struct(">qhiqiqiq")


cdef enum:
    OWN = 0        # the list of a table
    EVERY = 1      # the list of all tables

cdef uint32_t every_max = limits.PRODUCER_IDS_MAX
cdef uint32_t every_count = 0
cdef IdleList every_idle
every_idle.oldest = every_idle.newest = NULL


cdef void producers_free(ProducerTable* table) noexcept nogil:
    """Remove every producer."""
    global every_count
    cdef uint32_t i
    for i in range(table.capacity):
        if table.slots[i] != NULL:
            unlink_idle(table.slots[i])
            free(table.slots[i])
    every_count -= table.count
    free(table.slots)
    table.slots = NULL
    table.capacity = table.count = 0


# ---- idle lists ----------------------------------------------------------------------------------


cdef inline bint is_idle(ProducerEntry* entry) noexcept nogil:
    return entry.transaction_first < 0


cdef inline void list_append(IdleList* idle, int which, ProducerEntry* entry) noexcept nogil:
    entry.older[which] = idle.newest
    entry.newer[which] = NULL
    if idle.newest == NULL:
        idle.oldest = entry
    else:
        idle.newest.newer[which] = entry
    idle.newest = entry


cdef inline void list_remove(IdleList* idle, int which, ProducerEntry* entry) noexcept nogil:
    if entry.older[which] == NULL:
        idle.oldest = entry.newer[which]
    else:
        entry.older[which].newer[which] = entry.newer[which]
    if entry.newer[which] == NULL:
        idle.newest = entry.older[which]
    else:
        entry.newer[which].older[which] = entry.older[which]


cdef void link_idle(ProducerEntry* entry) noexcept nogil:
    if is_idle(entry):
        list_append(&entry.table.idle, OWN, entry)
        list_append(&every_idle, EVERY, entry)


cdef void unlink_idle(ProducerEntry* entry) noexcept nogil:
    if is_idle(entry):
        list_remove(&entry.table.idle, OWN, entry)
        list_remove(&every_idle, EVERY, entry)


# ---- the table -----------------------------------------------------------------------------------


cdef inline uint32_t slot_of(ProducerTable* table, int64_t producer_id) noexcept nogil:
    # Fibonacci hashing: ids of one block are consecutive, and must not get consecutive slots.
    return <uint32_t>((<uint64_t>producer_id * <uint64_t>0x9E3779B97F4A7C15) >> 32) & (
        table.capacity - 1)


cdef ProducerEntry* producers_find(ProducerTable* table, int64_t producer_id) noexcept nogil:
    """Return the entry of a producer, or NULL."""
    cdef uint32_t slot
    if table.capacity == 0:
        return NULL
    slot = slot_of(table, producer_id)
    while table.slots[slot] != NULL:
        if table.slots[slot].producer_id == producer_id:
            return table.slots[slot]
        slot = (slot + 1) & (table.capacity - 1)
    return NULL


cdef inline bint is_expired(
        ProducerTable* table, ProducerEntry* entry, int64_t now_ms) noexcept nogil:
    return is_idle(entry) and entry.updated_ms + table.expiration_ms < now_ms


cdef inline void place(ProducerTable* table, ProducerEntry* entry) noexcept nogil:
    cdef uint32_t slot = slot_of(table, entry.producer_id)
    while table.slots[slot] != NULL:
        slot = (slot + 1) & (table.capacity - 1)
    table.slots[slot] = entry


cdef int resize(ProducerTable* table, uint32_t capacity) noexcept nogil:
    # -1: no memory; the table is unchanged.
    cdef ProducerEntry** old = table.slots
    cdef uint32_t old_capacity = table.capacity, i
    cdef ProducerEntry** slots = <ProducerEntry**>calloc(capacity, sizeof(ProducerEntry*))
    if slots == NULL:
        return -1
    table.slots = slots
    table.capacity = capacity
    for i in range(old_capacity):
        if old[i] != NULL:
            place(table, old[i])
    free(old)
    return 0


cdef void forget(ProducerEntry* entry) noexcept nogil:
    # Remove an entry from its table: those after it in its run of slots move up, so that a search
    # does not stop at an empty slot before the entry it looks for.
    global every_count
    cdef ProducerTable* table = entry.table
    cdef uint32_t last = table.capacity - 1
    cdef uint32_t hole = slot_of(table, entry.producer_id), at, home
    while table.slots[hole] != entry:
        hole = (hole + 1) & last
    at = hole
    while True:
        at = (at + 1) & last
        if table.slots[at] == NULL:
            break
        home = slot_of(table, table.slots[at].producer_id)
        if ((at - home) & last) >= ((at - hole) & last):   # its home is not after the hole
            table.slots[hole] = table.slots[at]
            hole = at
    table.slots[hole] = NULL
    table.count -= 1
    every_count -= 1
    unlink_idle(entry)
    free(entry)
    if table.capacity > CAPACITY_MIN and table.count * 8 <= table.capacity:
        resize(table, table.capacity // 2)   # without memory for that, it keeps its size


cdef bint could_have_room(ProducerTable* table) noexcept nogil:
    if table.count >= table.count_max and table.idle.oldest == NULL:
        return False
    return every_count < every_max or every_idle.oldest != NULL


cdef ProducerEntry* new_entry(ProducerTable* table, int64_t producer_id) noexcept nogil:
    # Return an entry that is in its table and in no list; NULL: limit reached, or no memory.
    global every_count
    cdef ProducerEntry* entry
    if not could_have_room(table):
        return NULL
    if table.count >= table.count_max:
        forget(table.idle.oldest)
    elif every_count >= every_max:
        forget(every_idle.oldest)
    if table.capacity == 0 or (table.count + 1) * 4 > table.capacity * 3:
        if resize(table, table.capacity * 2 if table.capacity > 0 else CAPACITY_MIN) < 0:
            return NULL
    entry = <ProducerEntry*>malloc(sizeof(ProducerEntry))
    if entry == NULL:
        return NULL
    entry.producer_id = producer_id
    entry.table = table
    place(table, entry)
    table.count += 1
    every_count += 1
    return entry


def producers_total():
    """Return how many producers all partitions of the process have together."""
    return every_count


def set_producers_max(uint32_t count):
    """Set how many those may be; excess ones are evicted as new ones are added."""
    global every_max
    every_max = count


# ---- batches and markers -------------------------------------------------------------------------


cdef int32_t sequence_add(int32_t sequence, int32_t delta) noexcept nogil:
    """Return the sequence `delta` after another; after 2^31-1 comes 0."""
    cdef int64_t total = <int64_t>sequence + delta
    if total > INT32_MAX:
        total -= <int64_t>INT32_MAX + 1
    return <int32_t>total


cdef inline ProducerBatch* newest(ProducerEntry* entry) noexcept nogil:
    return &entry.batches[
        (entry.oldest + entry.batch_count - 1) % PRODUCER_BATCHES_KEPT]


cdef ProducerBatch producer_batch(BatchInfo* info, int64_t base_offset) noexcept nogil:
    """Return what is kept of a batch that has a sequence.

    By the offsets: compaction may have removed records of the batch, or all.
    """
    cdef ProducerBatch batch
    batch.first_sequence = info.base_sequence
    batch.last_sequence = sequence_add(info.base_sequence, info.last_offset_delta)
    batch.base_offset = base_offset
    batch.last_offset_delta = info.last_offset_delta
    batch.timestamp = info.max_timestamp
    return batch


cdef SequenceStatus producers_check(
        ProducerTable* table, int64_t producer_id, int16_t epoch, int32_t first_sequence,
        int32_t record_count, int64_t now_ms, ProducerBatch* duplicate) noexcept nogil:
    """Return what to do with a batch; `duplicate` is filled if it has been appended before."""
    cdef ProducerEntry* entry = producers_find(table, producer_id)
    cdef ProducerBatch* batch
    cdef int32_t last_sequence
    cdef int i
    if entry == NULL:
        return SEQUENCE_NEXT if could_have_room(table) else SEQUENCE_FULL
    if is_expired(table, entry, now_ms):
        return SEQUENCE_NEXT
    if epoch < entry.epoch:
        return SEQUENCE_FENCED
    if epoch > entry.epoch:
        return SEQUENCE_NEXT if first_sequence == 0 else SEQUENCE_OUT_OF_ORDER
    if entry.batch_count == 0:   # only a marker of this epoch is known
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
    # Return the entry for a batch or marker of that epoch, removed from the idle lists: the caller
    # links it once it has set whether a transaction is open. NULL: no room for a new producer.
    cdef ProducerEntry* entry = producers_find(table, producer_id)
    if entry == NULL:
        entry = new_entry(table, producer_id)
        if entry == NULL:
            return NULL
        entry.epoch = epoch
        entry.coordinator_epoch = -1
        entry.transaction_first = -1
        entry.batch_count = entry.oldest = 0
        entry.is_restored = False
        entry.updated_ms = now_ms
        return entry
    unlink_idle(entry)
    if epoch != entry.epoch or is_expired(table, entry, now_ms):
        entry.epoch = epoch
        entry.batch_count = entry.oldest = 0
        entry.is_restored = False
    entry.updated_ms = now_ms
    return entry


cdef int producers_update(
        ProducerTable* table, int64_t producer_id, int16_t epoch, ProducerBatch* batch,
        int64_t now_ms) noexcept nogil:
    """Add an appended batch to its producer's state. -1: no room for a new producer."""
    cdef ProducerEntry* entry = entry_for(table, producer_id, epoch, now_ms)
    if entry == NULL:
        return -1
    if entry.batch_count == PRODUCER_BATCHES_KEPT:
        entry.oldest = (entry.oldest + 1) % PRODUCER_BATCHES_KEPT
        entry.batch_count -= 1
    entry.batch_count += 1
    newest(entry)[0] = batch[0]
    link_idle(entry)
    return 0


cdef void producers_complete(
        ProducerEntry* entry, const ProducerBatch* earlier, int count) noexcept nogil:
    """Add batches before those that are known, newest first, for which there must be room."""
    cdef int i
    for i in range(count):
        entry.oldest = (entry.oldest + PRODUCER_BATCHES_KEPT - 1) % PRODUCER_BATCHES_KEPT
        entry.batches[entry.oldest] = earlier[i]
        entry.batch_count += 1


cdef bint producers_have_room(ProducerTable* table, int64_t producer_id) noexcept nogil:
    """Return whether a producer is known, or could be added."""
    return producers_find(table, producer_id) != NULL or could_have_room(table)


cdef int producers_begin(
        ProducerTable* table, int64_t producer_id, int16_t epoch, int64_t first_offset,
        int64_t now_ms) noexcept nogil:
    """Add a transactional batch, which begins the producer's transaction if none is open.

    A coordinator's batches have no sequence, so the producer may be unknown here.
    1: the transaction begins with it, 0: it was open, -1: no room for a new producer.
    """
    cdef ProducerEntry* entry = entry_for(table, producer_id, epoch, now_ms)
    if entry == NULL:
        return -1
    if entry.transaction_first >= 0:
        return 0
    entry.transaction_first = first_offset
    return 1


cdef int producers_end(
        ProducerTable* table, int64_t producer_id, int16_t epoch, int32_t coordinator_epoch,
        int64_t now_ms) noexcept nogil:
    """End a producer's transaction by its marker. -1: no room for a new producer."""
    cdef ProducerEntry* entry = entry_for(table, producer_id, epoch, now_ms)
    if entry == NULL:
        return -1
    entry.coordinator_epoch = coordinator_epoch
    entry.transaction_first = -1
    link_idle(entry)
    return 0


cdef dict producers_open(ProducerTable* table):
    """Return the first offset of each open transaction by producer id."""
    cdef uint32_t i
    return {
        table.slots[i].producer_id: table.slots[i].transaction_first
        for i in range(table.capacity)
        if table.slots[i] != NULL and not is_idle(table.slots[i])
    }


cdef list producers_ends(ProducerTable* table):
    """Return (producer id, epoch, last offset) of each producer's newest batch."""
    cdef ProducerEntry* entry
    cdef ProducerBatch* last
    cdef uint32_t i
    ends = []
    for i in range(table.capacity):
        entry = table.slots[i]
        if entry != NULL and entry.batch_count > 0:
            last = newest(entry)
            ends.append((entry.producer_id, entry.epoch, last.base_offset + last.last_offset_delta))
    return ends


cdef tuple producers_row(ProducerEntry* entry):
    """Return (id, epoch, last sequence, last timestamp, coordinator epoch, first offset of the open
    transaction) of a producer; -1 for unknown values.
    """
    last = (-1, entry.updated_ms)
    if entry.batch_count > 0:
        last = (newest(entry).last_sequence, newest(entry).timestamp)
    return (entry.producer_id, entry.epoch, *last, entry.coordinator_epoch,
            entry.transaction_first)


cdef tuple producers_active_one(ProducerTable* table, int64_t producer_id, int64_t now_ms):
    """Return the row of one producer; None when it is unknown or has expired."""
    cdef ProducerEntry* entry = producers_find(table, producer_id)
    if entry == NULL or is_expired(table, entry, now_ms):
        return None
    return producers_row(entry)


cdef list producers_active(ProducerTable* table, int64_t now_ms):
    """Return the row of each producer that has not expired."""
    cdef uint32_t i
    return [
        producers_row(table.slots[i])
        for i in range(table.capacity)
        if table.slots[i] != NULL and not is_expired(table, table.slots[i], now_ms)
    ]


cdef bytes producers_snapshot(ProducerTable* table):
    """Return the content of a snapshot file, which as in Kafka has each producer's last batch."""
    cdef ProducerEntry* entry
    cdef ProducerBatch* last
    cdef uint32_t i
    body = [b""]
    for i in range(table.capacity):
        entry = table.slots[i]
        if entry == NULL:
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


cdef int producers_restore(
        ProducerTable* table, bytes snapshot, int64_t now_ms, int64_t wall_ms) except -2:
    """Fill an empty table from a snapshot file. -1 when it is damaged: rebuild from the log.

    `now_ms` is the table's monotonic time, `wall_ms` the wall clock at the same moment.
    """
    if len(snapshot) < 10:
        return -1
    version, crc, count = _HEAD.unpack_from(snapshot)
    tail = snapshot[6:]
    if (version != 1 or count < 0 or len(tail) != 4 + count * _ENTRY.size
            or crc != crc32c_extend(
                0, <unsigned char*>PyBytes_AS_STRING(tail), PyBytes_GET_SIZE(tail))):
        return -1
    aged = [(silent_ms(table, entry, wall_ms), entry) for entry in _ENTRY.iter_unpack(tail[4:])]
    aged.sort(reverse=True)   # those idle longest are evicted first
    for age_ms, entry in aged:
        if restore_entry(table, entry, now_ms - age_ms) < 0:
            return -1
    return 0


cdef int64_t silent_ms(ProducerTable* table, tuple entry, int64_t wall_ms):
    # Return how long ago the last batch of a snapshot's entry was written.
    age_ms = wall_ms - entry[5]
    return age_ms if 0 < age_ms <= table.expiration_ms else 0


cdef int restore_entry(ProducerTable* table, tuple entry, int64_t updated_ms) except -2:
    cdef ProducerBatch batch
    cdef ProducerEntry* restored
    (producer_id, epoch, last_sequence, last_offset, delta, timestamp, coordinator_epoch,
     transaction_first) = entry
    if last_sequence < 0:
        if producers_end(table, producer_id, epoch, coordinator_epoch, updated_ms) < 0:
            return -1
    else:
        batch.last_sequence = last_sequence
        batch.first_sequence = (last_sequence - delta) % 0x8000_0000
        batch.base_offset = last_offset - delta
        batch.last_offset_delta = delta
        batch.timestamp = timestamp
        if producers_update(table, producer_id, epoch, &batch, updated_ms) < 0:
            return -1
        restored = producers_find(table, producer_id)
        restored.coordinator_epoch = coordinator_epoch
        restored.is_restored = True
    if transaction_first >= 0:
        return producers_begin(table, producer_id, epoch, transaction_first, updated_ms)
    return 0
