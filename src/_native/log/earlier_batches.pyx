"""Finds the batches of a producer that a snapshot has not kept.

A snapshot has the last batch of each producer, as in Kafka, but a producer may repeat any of the
last five. The headers before the last batch are read, from the index entry that is
PRODUCER_SEARCH_BYTES before it on.
"""

from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.header_window cimport WINDOW_SIZE, HeaderWindow, header_at, window_open
from broker._native.log.offset_index cimport index_floor_position
from broker._native.log.producer_state cimport (
    PRODUCER_BATCHES_KEPT,
    ProducerBatch,
    producer_batch,
)
from broker._native.log.segment cimport Segment
from broker._native.log.segment_file cimport PATH_SIZE
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CONTROL,
    BATCH_HEADER_SIZE,
    BatchInfo,
    batch_header,
)

from broker.model import limits

cdef int64_t SEARCH_BYTES = limits.PRODUCER_SEARCH_BYTES


cdef int earlier_batches(
        list segments, int64_t before, int64_t producer_id, int16_t epoch, int wanted,
        ProducerBatch* found) noexcept:
    """Store the last `wanted` batches of a producer and epoch below an offset, newest first.

    Return how many were found: fewer if the others are farther away than the limit, were deleted
    or are in a segment that is damaged or cannot be read. `segments` are the log's, oldest first.
    """
    cdef Py_ssize_t place
    cdef Segment segment
    cdef int64_t start, end, left = SEARCH_BYTES
    cdef int count = 0
    for place in range(PyList_GET_SIZE(segments) - 1, -1, -1):
        segment = <Segment>PyList_GET_ITEM(segments, place)
        if segment.base_offset >= before:
            continue
        if count == wanted or left <= 0 or segment.damaged is not None or segment.open(False) < 0:
            break
        end = segment.locate(before)
        start = start_of(segment, end - left)
        # The index may be too sparse for an entry that is near enough.
        if end < 0 or start < 0 or end - start > 2 * SEARCH_BYTES:
            break
        count += batches_between(
            segment, start, end, producer_id, epoch, wanted - count, found + count)
        left -= end - start
    return count


cdef int64_t start_of(Segment segment, int64_t position) noexcept:
    # Return the start of a batch at or below a position; -1 if the index entry names no batch.
    cdef char path[PATH_SIZE]
    cdef int32_t indexed
    cdef int64_t start
    if position <= 0:
        return 0
    segment.path(path, b".index")
    start = index_floor_position(&segment.index, path, position, &indexed)
    return start if indexed < 0 or segment.has_batch(start, indexed) else -1


cdef int batches_between(
        Segment segment, int64_t position, int64_t end, int64_t producer_id, int16_t epoch,
        int wanted, ProducerBatch* found) noexcept nogil:
    cdef ProducerBatch last[PRODUCER_BATCHES_KEPT]   # a ring of `wanted`
    cdef HeaderWindow window
    cdef BatchInfo info
    cdef Cursor cursor
    cdef const uint8_t* head
    cdef int seen = 0, i
    window_open(&window, segment.fd, WINDOW_SIZE)
    while position < end:
        head = header_at(&window, position, BATCH_HEADER_SIZE)
        if head == NULL:
            break
        cursor.next = head
        cursor.left = BATCH_HEADER_SIZE
        batch_header(&cursor, &info)   # the records are not read
        if info.size == 0 or info.magic != 2:
            break
        if info.producer_id == producer_id and info.producer_epoch == epoch and (
                info.base_sequence >= 0 and not info.attributes & ATTRIBUTE_CONTROL):
            last[seen % wanted] = producer_batch(&info, info.base_offset)
            seen += 1
        position += <int64_t>info.size
    for i in range(min(seen, wanted)):
        found[i] = last[(seen - 1 - i) % wanted]
    return min(seen, wanted)
