"""Finds the offset of the first record that is at least as new as a timestamp (KIP-79).

Segments whose newest record is older are skipped. In the first other one, the time index gives the
start, at most an index interval too early; from there batches are read until one has such a record.
Only that batch is decoded.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t

from broker._native.kernel.cursor cimport Cursor
from broker._native.log.offset_index cimport index_floor_time
from broker._native.log.segment cimport Segment
from broker._native.log.segment_file cimport PATH_SIZE
from broker._native.log.turn cimport Turn
from broker._native.records.column cimport Column
from broker._native.records.record_batch cimport (
    BATCH_OK, BatchInfo, batch_header, batch_last_offset,
)

from broker._native.records.column_decoder import decode_columns
from broker.model.errors import CodecError


cdef extern from *:
    """
    #include <malloc.h>
    #ifdef __GLIBC__
    #define trim_heap() malloc_trim(0)
    #else
    #define trim_heap() 0
    #endif
    """
    # Otherwise the memory of a decompression bomb, up to its limit, would stay in the heap.
    int trim_heap() nogil


cdef object find_time(list segments, int64_t timestamp, int64_t start, int64_t end, object read,
                      Turn turn):
    """Return (offset, timestamp) of the first record in [start, end) at least as new, or None.

    `segments` are the log's, oldest first; read(offset, size) returns whole batches of them. For a
    batch whose records cannot be decoded, its first offset is returned.
    """
    cdef Segment segment
    cdef Py_ssize_t place
    for place in range(len(segments)):
        segment = <Segment>segments[place]
        if segment.max_timestamp < timestamp or segment.base_offset >= end:
            continue
        segment_end = end
        if place + 1 < len(segments):
            segment_end = min(end, (<Segment>segments[place + 1]).base_offset)
        found = find_in_segment(segment, timestamp, start, segment_end, read, turn)
        if found is not None:
            return found
    return None


cdef object find_in_segment(Segment segment, int64_t timestamp, int64_t start, int64_t end,
                            object read, Turn turn):
    cdef char path[PATH_SIZE]
    cdef BatchInfo info
    cdef int64_t offset, indexed
    segment.path(path, b".timeindex")
    offset = segment.base_offset + index_floor_time(&segment.index, path, timestamp, &indexed)
    if indexed >= 0 and start <= offset < end and not (
            read_header(read(offset, 1), &info) and info.max_timestamp == indexed
            and batch_last_offset(&info) == offset):
        # The entry matches no batch: a damaged index is not used at all.
        if segment.open(False) < 0 or segment.rebuild_index() < 0:
            return None   # the reader's next read then reports the error
        offset = segment.base_offset + index_floor_time(&segment.index, path, timestamp, &indexed)
    if indexed >= 0 and offset >= end:
        offset = segment.base_offset
    offset = max(offset, start)
    while offset < end:
        batch = read(offset, 1)
        if not read_header(batch, &info):
            return None
        if info.max_timestamp >= timestamp:
            is_damaged = False
            try:
                found = first_in_batch(batch, timestamp, start, turn)
            except CodecError:
                is_damaged = True
            if is_damaged:
                trim_heap()
                return info.base_offset, info.base_timestamp
            if found is not None:
                return found
        offset = batch_last_offset(&info) + 1
    return None


cdef bint read_header(bytes batch, BatchInfo* info):
    cdef Cursor cursor
    cursor.next = <const uint8_t*>PyBytes_AS_STRING(batch)
    cursor.left = PyBytes_GET_SIZE(batch)
    return batch_header(&cursor, info) == BATCH_OK


cdef object first_in_batch(bytes batch, int64_t timestamp, int64_t start, Turn turn):
    cdef Column offsets, timestamps
    count, _, _, arrays = decode_columns(
        batch, ("offset", "timestamp"), turn.decompress, bytes_max=turn.decompressed_bytes_max,
        min_offset=start, min_timestamp=timestamp)
    if count == 0:
        return None
    offsets, timestamps = arrays["offset"], arrays["timestamp"]
    return (<int64_t*>offsets.data)[0], (<int64_t*>timestamps.data)[0]
