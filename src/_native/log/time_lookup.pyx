"""From a time to an offset: the first record that is at least as new (KIP-79).

A segment whose newest record is older is passed by. In the first that is not, the time index says
where to begin, at most an interval of the index too early; from there batches are read until one
has such a record. Only that one is unpacked.
"""

from libc.stdint cimport int64_t

from broker._native.log.offset_index cimport index_floor_time
from broker._native.log.segment cimport PATH_SIZE, Segment

from broker._native.records import record_batch
from broker.model.errors import CodecError


cdef object find_time(list segments, int64_t timestamp, int64_t start, int64_t end, object read,
                      object decompress):
    """(offset, timestamp) of the first record in [start, end) at least as new, or None.

    `segments` are the log's, oldest first; read(offset, size) returns whole batches of them. A
    batch whose records cannot be unpacked is answered with its first offset.
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
        found = find_in_segment(segment, timestamp, start, segment_end, read, decompress)
        if found is not None:
            return found
    return None


cdef object find_in_segment(Segment segment, int64_t timestamp, int64_t start, int64_t end,
                            object read, object decompress):
    cdef char path[PATH_SIZE]
    cdef int64_t offset
    segment.path(path, b".timeindex")
    offset = segment.base_offset + index_floor_time(&segment.index, path, timestamp)
    offset = max(offset, start)
    while offset < end:
        batch = read(offset, 1)
        if not batch:
            return None
        header = record_batch.header(batch)
        if header["max_timestamp"] >= timestamp:
            try:
                for record in record_batch.iterate(batch, decompress):
                    if record[1] >= timestamp and record[0] >= start:
                        return record[0], record[1]
            except CodecError:
                return header["base_offset"], header["base_timestamp"]
        offset = header["base_offset"] + header["last_offset_delta"] + 1
    return None
