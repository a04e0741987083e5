"""Reads a segment after an unclean stop: finds where its log ends and what before that is damaged.

Base offset, leader epoch and CRC decide where a log ends, never a marker file
(src/broker/storage/README.md).
A batch does not continue the log

    when it is cut short, has no valid header or a wrong CRC,
    when it does not begin at the offset where the previous one ended, or
    when its leader epoch is below the previous one's: it is left over from before a torn write.

Below the recovery point compaction may have removed batches: there batches may be missing between
two others, at the beginning of a segment and at its end.

A follower copies such a log, so its own may lack batches anywhere between two others of a segment.
(Where a crash has taken the end of a file, something else follows there, or nothing.) A segment of
it still begins where the one before it ended: if it does not, that one has lost its end. A base
offset is not covered by the CRC: it is damaged rather than after a gap, if the next batch continues
the log without that gap.

What an invalid batch means depends on its offset. Everything below `synced_end` was on the disk
once: `synced_end` is the recovery point, or the end of the last segment that is known to have been
sealed, whichever is higher. A crash does not change what was on the disk, so an invalid batch there
is damage: its records are refused, and the records after it, which were acknowledged, are served.
From `synced_end` on, a crash may have left any part of what was written: the first invalid batch
ends the log.

The next valid batch after a damaged one is where the damaged one's length says that it ends, if a
batch with a correct CRC is there that continues the log; else the one that `SegmentCheck` finds. A
leader epoch is not covered by the CRC: where it decreases, but not below that of the batch before
the last, the last batch is taken to be the damaged one.
"""

from libc.errno cimport ENOMEM
from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

from broker._native.kernel.cursor cimport Cursor, load_int32
from broker._native.kernel.file_ops cimport file_pread
from broker._native.kernel.growing cimport make_capacity
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.segment cimport Segment
from broker._native.log.segment_file cimport PATH_SIZE
from broker._native.log.segmented_log cimport must
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CONTROL,
    BATCH_HEADER_SIZE,
    BATCH_LENGTH_END,
    BATCH_OK,
    BatchInfo,
    batch_check_crc,
    batch_header,
)

import logging

from broker._native.kernel import file_ops
from broker._native.log.segment_check import SegmentCheck
from broker.model import limits
from broker.model.errors import StorageError

logger = logging.getLogger(__name__)

cdef size_t RECOVERY_READ_BYTES = limits.RECOVERY_READ_BYTES
cdef size_t RECOVERY_STEP_BYTES = limits.RECOVERY_STEP_BYTES


cdef class _Chunk:
    # A window over one file; it grows only to hold a batch that is whole in the file.
    def __cinit__(self):
        self.capacity = RECOVERY_READ_BYTES
        self.bytes = <uint8_t*>malloc(RECOVERY_READ_BYTES)
        if self.bytes == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.bytes)

    cdef int hold(self, int fd, int64_t position, size_t size) noexcept:
        # Read [position, position + size) into the window, or as much as the file has.
        cdef ssize_t count
        if position >= self.start and position + size <= self.start + self.size:
            return 0
        if not make_capacity(<void**>&self.bytes, &self.capacity, size):
            return -ENOMEM
        size = max(size, RECOVERY_STEP_BYTES)
        with nogil:   # the event loop serves other requests meanwhile
            count = file_pread(fd, self.bytes, min(size, self.capacity), position)
        if count < 0:
            return <int>count
        self.start = position
        self.size = <size_t>count
        return 0


cdef void scan_begin(
        Scan* scan, int64_t next_offset, int64_t gaps_end, int64_t synced_end,
        bint is_copy) noexcept nogil:
    """Begin before the first batch."""
    scan.next_offset = next_offset
    scan.gaps_end = gaps_end
    scan.is_copy = is_copy
    scan.synced_end = synced_end
    scan.epoch = scan.epoch_before = -1
    scan.last_offset = -1


cdef bint next_batch(_Chunk chunk, Segment segment, Scan* scan, BatchInfo* info,
                     int* status) noexcept:
    # Return whether a valid batch follows; *status < 0 when the file cannot be read.
    cdef Cursor cursor
    cdef int64_t left = segment.reserved - scan.position
    cdef int32_t length
    if left < BATCH_HEADER_SIZE:
        return False
    status[0] = chunk.hold(segment.fd, scan.position, BATCH_HEADER_SIZE)
    if status[0] < 0 or scan.position + BATCH_HEADER_SIZE > chunk.start + <int64_t>chunk.size:
        return False
    length = load_int32(chunk.bytes + (scan.position - chunk.start) + 8)
    if length < BATCH_HEADER_SIZE - BATCH_LENGTH_END or length > left - BATCH_LENGTH_END:
        return False
    status[0] = chunk.hold(segment.fd, scan.position, <size_t>length + BATCH_LENGTH_END)
    if status[0] < 0:
        return False
    cursor.next = chunk.bytes + (scan.position - chunk.start)
    cursor.left = <size_t>(chunk.start + <int64_t>chunk.size - scan.position)
    if batch_header(&cursor, info) != BATCH_OK:
        return False
    if info.base_offset != scan.next_offset and not may_begin_at(scan, info):
        return False
    if info.leader_epoch < scan.epoch:
        return False
    if info.last_offset_delta < 0 or (
            info.base_offset + info.last_offset_delta >= scan.batches_end):
        return False
    if batch_check_crc(chunk.bytes + (scan.position - chunk.start), info) != BATCH_OK:
        return False
    if info.base_offset > max(scan.next_offset, scan.gaps_end) and (
            continues_without_gap(chunk, segment, scan, info, status)):
        return False
    return status[0] >= 0


cdef bint may_begin_at(const Scan* scan, const BatchInfo* info) noexcept nogil:
    # Return whether batches may be missing before this one.
    if info.base_offset <= scan.next_offset:
        return False
    return info.base_offset <= scan.gaps_end or (
        scan.is_copy and info.base_offset < scan.segment_end - info.last_offset_delta)


cdef bint may_skip_to(const Scan* scan, int64_t base_offset) noexcept nogil:
    """Return whether batches may be missing between the last one and the next segment.

    A copy begins a segment after a gap only if the last one cannot name the offset: its own end,
    which it may have lost, is not that long.
    """
    return scan.next_offset < base_offset and (
        base_offset <= scan.gaps_end
        or (scan.is_copy and base_offset - scan.next_offset > INT32_MAX))


cdef bint continues_without_gap(_Chunk chunk, Segment segment, const Scan* scan,
                                const BatchInfo* info, int* status) noexcept:
    # Return whether the batch after this one follows the one before it, and this one in between.
    cdef Scan probe = scan[0]
    cdef BatchInfo following
    cdef bint does_continue
    probe.is_copy = False
    probe.next_offset += info.last_offset_delta + 1
    probe.position += <int64_t>info.size
    does_continue = next_batch(chunk, segment, &probe, &following, status)
    if status[0] >= 0:
        status[0] = chunk.hold(segment.fd, scan.position, info.size)
    return does_continue


cdef int scan_segment(PartitionLog log, Segment segment, Scan* scan, int64_t end_offset,
                      int64_t producers_from, _Chunk chunk) except -1:
    """Read the batches of one segment, and rebuild its index and the producers' state.

    `end_offset` is the base offset of the next segment, -1: there is none.
    """
    cdef _Damages damages = None
    cdef bytes index = b""
    cdef int status = 0
    segment.is_settled = False   # it stays open while it is read
    must(segment.open(False), log, "cannot open a segment")
    if segment.base_offset < scan.synced_end:
        index = index_of(segment)   # to find the next valid batch after a damaged one
    must(segment.drop_index(producers_from), log, "cannot cut an index")
    segment.size = 0
    segment.max_timestamp = -1
    scan.position = 0
    scan.batches_end = end_offset if 0 <= end_offset <= scan.synced_end else INT64_MAX
    scan.segment_end = end_offset if end_offset >= 0 else INT64_MAX
    chunk.start = chunk.size = 0
    while True:
        step_over(log, segment, scan, producers_from, chunk, &status)
        must(status, log, "cannot read a segment")
        if scan.next_offset >= scan.synced_end or scan.next_offset == end_offset:
            break
        if damages is None:
            damages = _Damages(log, segment, index)
        if not damages.skip(scan, chunk):
            break
    segment.written = segment.size
    if damages is not None:
        damages.refuse()
    return 0


cdef int step_over(PartitionLog log, Segment segment, Scan* scan, int64_t producers_from,
                   _Chunk chunk, int* status) except -1:
    # Read the valid batches from a position on.
    cdef BatchInfo info
    cdef const uint8_t* batch
    while next_batch(chunk, segment, scan, &info, status):
        segment.note(&info, info.base_offset, log.index_interval_bytes)
        if info.base_offset >= producers_from:
            batch = chunk.bytes + (scan.position - chunk.start)
            if info.attributes & ATTRIBUTE_CONTROL:
                must(log.note_abort(segment, batch, &info, info.base_offset), log,
                     "cannot write an index of aborted transactions")
            log.update_producer(batch, &info, info.base_offset)
        scan.epoch_before = scan.epoch
        if info.leader_epoch > scan.epoch:
            if not log.epochs or log.epochs[-1][0] < info.leader_epoch:
                log.begin_epoch(info.leader_epoch, info.base_offset)
            scan.epoch = info.leader_epoch
        scan.last_offset = info.base_offset
        scan.next_offset = info.base_offset + info.last_offset_delta + 1
        scan.position += <int64_t>info.size
    return 0


cdef bytes index_of(Segment segment):
    cdef char path[PATH_SIZE]
    segment.path(path, b".index")
    name = (<bytes>path).decode("utf-8", "surrogateescape")
    try:
        return file_ops.read_range(name, 0, min(file_ops.size(name), limits.INDEX_READ_BYTES_MAX))
    except (FileNotFoundError, StorageError):
        return b""   # the search for a valid batch works without it


cdef class _Damages:
    """The damaged ranges of one segment, below `synced_end`."""

    cdef PartitionLog log
    cdef Segment segment
    cdef bytes index
    cdef list found                # (offset, end offset, position, end position), ascending
    cdef list examined             # the same, found by a SegmentCheck; None: not run yet

    def __cinit__(self, PartitionLog log, Segment segment, bytes index):
        self.log = log
        self.segment = segment
        self.index = index
        self.found = []

    cdef bint skip(self, Scan* scan, _Chunk chunk) except -1:
        """Continue after the damage at the scan's position; return False if the log ends here."""
        cdef bint is_sealed = scan.batches_end != INT64_MAX
        cdef int64_t end, offset
        if is_sealed and scan.position == self.segment.reserved and (
                may_skip_to(scan, scan.batches_end)):
            return False   # compaction has removed what is missing up to the next segment
        if self.drop_last(scan, chunk):
            return True
        end, offset = self.stated_end(scan, chunk, is_sealed)
        if end < 0:
            end, offset = self.examined_end(scan, is_sealed)
        if end < 0 and is_sealed:
            end, offset = self.segment.reserved, scan.batches_end
        if end < 0:
            return False
        self.found.append((scan.next_offset, offset, scan.position, end))
        self.segment.size = scan.position = end
        scan.next_offset = offset
        return True

    cdef bint drop_last(self, Scan* scan, _Chunk chunk) except -1:
        # If the leader epoch of the last batch is the damaged one, mark that batch as damaged and
        # return True: the batch at the scan's position continues the log without it.
        cdef Scan probe = scan[0]
        cdef BatchInfo info
        cdef int status = 0
        cdef Segment holder = self.segment
        cdef int64_t position
        if scan.last_offset < 0 or scan.epoch_before == scan.epoch:
            return False
        probe.epoch = scan.epoch_before
        if not next_batch(chunk, self.segment, &probe, &info, &status):
            return False
        if scan.last_offset < holder.base_offset:
            holder = self.log.segment_before(holder)
        position = holder.last_batch_position
        last = (scan.last_offset, scan.next_offset, position, holder.size)
        if holder is self.segment:
            self.found.append(last)
        else:
            holder.set_damaged([*(holder.damaged or ()), last])
            log_damage(self.log, holder, last)
        while self.log.epochs and self.log.epochs[-1][1] >= scan.last_offset:
            self.log.epochs.pop()
        if not self.log.epochs:
            self.log.epochs.append((max(scan.epoch_before, 0), holder.base_offset))
        scan.epoch = scan.epoch_before
        scan.last_offset = -1
        return True

    cdef (int64_t, int64_t) stated_end(self, Scan* scan, _Chunk chunk, bint is_sealed) except *:
        # Return where the batch ends according to its length, and the offset there, if a valid
        # batch follows; (-1, -1) otherwise.
        cdef Scan probe = scan[0]
        cdef BatchInfo info
        cdef uint8_t head[BATCH_LENGTH_END]
        cdef int status = 0
        cdef int32_t length
        if file_pread(self.segment.fd, head, BATCH_LENGTH_END, scan.position) < BATCH_LENGTH_END:
            return -1, -1
        length = load_int32(head + 8)
        if length < BATCH_HEADER_SIZE - BATCH_LENGTH_END:
            return -1, -1
        probe.position += BATCH_LENGTH_END + <int64_t>length
        if is_sealed and probe.position == self.segment.reserved:
            return probe.position, scan.batches_end
        probe.next_offset += 1
        probe.gaps_end = INT64_MAX
        if probe.position < self.segment.reserved and next_batch(
                chunk, self.segment, &probe, &info, &status):
            return probe.position, info.base_offset
        return -1, -1

    cdef (int64_t, int64_t) examined_end(self, Scan* scan, bint is_sealed) except *:
        # The same, by a SegmentCheck of the whole segment.
        if self.examined is None:
            self.examined = self.examine(is_sealed)
        for _, end_offset, position, end_position in self.examined:
            if position <= scan.position < end_position and scan.next_offset < end_offset <= (
                    scan.batches_end):
                return end_position, end_offset
        return -1, -1

    cdef list examine(self, bint is_sealed):
        cdef char path[PATH_SIZE]
        self.segment.path(path, b".log")
        check = SegmentCheck(<bytes>path, self.segment.base_offset, index=self.index,
                             is_active=not is_sealed)
        try:
            while check.step(limits.SEGMENT_CHECK_STEP_BYTES):
                pass
            return [(each.offset, each.end_offset, each.position, each.end_position)
                    for each in check.damages if each.end_offset >= 0]
        finally:
            check.close()

    cdef int refuse(self) except -1:
        """Make the segment refuse reads of the damaged ranges, and log them."""
        if self.found:
            self.segment.set_damaged(self.found)
            for each in self.found:
                log_damage(self.log, self.segment, each)
        return 0


cdef int log_damage(PartitionLog log, Segment segment, tuple damaged) except -1:
    offset, end_offset, position, end_position = damaged
    logger.error("damaged records are refused: folder=%s base_offset=%d bytes=%d..%d "
                 "offsets=%d..%d: they were on the disk, all others are served", log.folder,
                 segment.base_offset, position, end_position, offset, end_offset)
    return 0
