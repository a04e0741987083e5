"""Cuts a replica's log at an offset, because its leader does not have what follows.

    read      the producers at the beginning of that segment, if there is no snapshot of them
    plan      where the log is cut: the segment that becomes the last one, and its size
    cut       that file is truncated and everything that stays is synced
    rebuild   the state in memory: indexes, producers, transactions, offsets, high watermark

In between, `broker.storage.recovery.truncation` changes the other files in an order that any crash
may interrupt. While a thread does this the log is held (`SyncedLog.hold`): nothing else writes to
it, and it is loading for everybody else.

A cut is at the beginning of a batch. A batch that the offset is within is removed as well, and so
is everything from a broken batch on: the leader has all of it.
"""

cimport cython
from libc.stdint cimport INT64_MAX, int64_t

from broker._native.kernel.cursor cimport load_int64
from broker._native.kernel.file_ops cimport (
    file_sync_data,
    file_sync_folder,
    file_truncate,
    is_no_space,
)
from broker._native.log.header_window cimport NO_BATCH
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.recovery_scan cimport (
    _Chunk, Scan, next_batch, scan_begin, scan_segment,
)
from broker._native.log.replication cimport PLACES_KEPT, Replication
from broker._native.log.segment cimport Segment
from broker._native.log.segmented_log cimport must
from broker._native.records.record_batch cimport BatchInfo

from typing import NamedTuple


@cython.final
cdef class EarlierProducers:
    """Reads the producers' state at the last of some segments from those before it, in steps."""

    cdef PartitionLog log
    cdef PartitionLog producers      # without files
    cdef list left                   # (base offset, end) of the segments to be read, newest first
    cdef int64_t from_offset
    cdef Segment segment             # that is being read, or None
    cdef Scan scan
    cdef _Chunk chunk
    cdef readonly bint is_known      # all batches so far are valid

    def __cinit__(self, PartitionLog log not None, list bases not None, bytes snapshot not None,
                  int64_t snapshot_offset):
        """Begin with a snapshot (b"" for none) of the producers; `bases` are ascending."""
        self.log = log
        self.producers = PartitionLog(
            log.turn, log.topic, log.topic_id, log.partition, log.folder,
            producer_ids_max=log.producers.count_max,
            producer_expiration_ms=log.producers.expiration_ms)
        self.chunk = _Chunk()
        self.is_known = True
        if snapshot and self.producers.restore_producers(snapshot):
            self.from_offset = snapshot_offset
        self.left = [each for each in zip(bases, bases[1:], strict=False)
                     if each[1] > self.from_offset][::-1]

    def step(self, int64_t bytes_max):
        """Read about so many bytes; return whether there are more. Raises StorageError."""
        cdef BatchInfo info
        cdef int status = 0
        cdef int64_t stop
        if self.segment is None:
            if not self.left:
                return False
            base_offset, end_offset = self.left.pop()
            self.begin(base_offset, end_offset)
        stop = self.scan.position + bytes_max
        while self.scan.position < stop:
            if not next_batch(self.chunk, self.segment, &self.scan, &info, &status):
                must(status, self.log, "cannot read a segment")
                self.is_known = self.scan.position == self.segment.reserved
                self.close()
                return self.is_known and len(self.left) > 0
            if info.base_offset >= self.from_offset:
                self.producers.update_producer(
                    self.chunk.bytes + (self.scan.position - self.chunk.start), &info,
                    info.base_offset)
            self.scan.epoch = info.leader_epoch
            self.scan.next_offset = info.base_offset + info.last_offset_delta + 1
            self.scan.position += <int64_t>info.size
        return True

    def close(self):
        """Close the file that is being read, if any."""
        if self.segment is not None:
            self.segment.is_settled = True
            self.segment.close()
            self.segment = None

    cdef int begin(self, int64_t base_offset, int64_t end_offset) except -1:
        cdef Segment segment = self.log.new_segment(base_offset)
        segment.is_settled = False   # it stays open while it is read
        must(segment.open(False), self.log, "cannot open a segment")
        scan_begin(&self.scan, base_offset, INT64_MAX, 0, False)
        self.scan.position = 0
        self.scan.batches_end = self.scan.segment_end = end_offset
        self.chunk.start = self.chunk.size = 0
        self.segment = segment
        return 0

    @property
    def snapshot(self):
        """The content of a `.snapshot` file."""
        return self.producers.producer_snapshot()[1]


class Cut(NamedTuple):
    """Where a log is cut."""

    end_offset: int       # of the log afterwards; at most the asked one
    base_offset: int      # of the segment that becomes the last one
    size: int             # bytes of it that stay
    removed: list         # base offsets of the segments after it, newest first


def plan(PartitionLog log, int64_t offset):
    """Return how a held log is cut at an offset; None when it ends there or before.

    The offset is not below the log's first segment. Staged batches are written, or dropped if they
    are cut. Raises StorageError when a file cannot be read or written; nothing has changed then.
    """
    cdef Segment segment
    cdef Py_ssize_t place
    cdef int64_t position, first = 0
    offset = settle_staged(log, offset)
    if offset >= log.log_end_offset:
        return None
    place = log.index_of(offset)
    segment = <Segment>log.segments[place]
    must(segment.open(False), log, "cannot open a segment")
    position = segment.locate(offset)
    if position == NO_BATCH:
        position = segment.broken_at(offset, &first)
        offset = min(offset, first)
    elif 0 <= position < segment.written:
        first = segment.offset_at(position)
        # (A damaged batch may have any number there.)
        if segment.base_offset <= first:
            offset = min(offset, first)
    must(<int>min(position, 0), log, "cannot read a segment")
    if segment.damaged is not None:
        for damage_start, damage_end, _, _ in segment.damaged:
            if damage_start <= offset < damage_end:
                offset = damage_start
    removed = [(<Segment>each).base_offset for each in log.segments[place + 1:]]
    return Cut(offset, segment.base_offset, position, removed[::-1])


cdef int64_t settle_staged(PartitionLog log, int64_t offset) except -1:
    # Write the staged batches, or drop them; return the offset at which the log is cut.
    cdef int64_t first
    cdef int status
    if log.staged_size == 0:
        return offset
    first = load_int64(log.staged)
    if offset > first:
        status = log.write_staged()
        if status == 0:
            return offset
        if not is_no_space(status):
            must(status, log, "cannot write batches")
        offset = first   # their leader sends them again
    log.staged_size = 0
    log.is_full = False
    log.active.size = log.active.written
    log.log_end_offset = first
    log.has_unsynced_cut = True
    return offset


def cut(PartitionLog log, int64_t base_offset, int64_t size):
    """Truncate a segment's file, and sync all that stays. Raises StorageError.

    The files of the segments after it are gone. `rebuild` is next.
    """
    cdef Segment segment
    for segment in [*log.unsealed, log.segments[log.index_of(base_offset)]]:
        if segment.base_offset > base_offset:
            continue   # removed; the one that is cut may be older than all that wait for a sync
        segment.is_settled = False   # it stays open meanwhile
        must(segment.open(False), log, "cannot open a segment")
        must(cut_file(segment, size if segment.base_offset == base_offset else segment.written),
             log, "cannot cut a segment")
        segment.is_settled = True
        segment.close()


cdef int cut_file(Segment segment, int64_t size):
    # Without the GIL: some file systems trim the freed blocks on the disk before they return.
    cdef int fd = segment.fd
    cdef int status
    with nogil:
        status = file_truncate(fd, size)
        if status == 0:
            status = file_sync_data(fd)
    if status == 0:
        segment.reserved = size
    return status


def rebuild(PartitionLog log, int64_t base_offset, int64_t end_offset, *, list epochs,
            bytes snapshot, int64_t snapshot_offset):
    """Use what `cut` has left; the log ends at `end_offset`.

    `snapshot` (b"" for none) is the producers' state at `snapshot_offset`; batches after it are
    read, and those of the last segment. What was invalid there counts as damaged, because it was on
    the disk; if the last segment is damaged, a new one is begun after it. Returns where the log
    ends: if that is below the snapshot, no producers are known, and this is called again with that
    end and an earlier snapshot. Raises StorageError.
    """
    cdef _Chunk chunk = _Chunk()
    cdef Segment segment, old
    cdef Scan scan
    cdef int64_t high_watermark = log.high_watermark
    cdef Py_ssize_t first, last, i
    last = log.index_of(base_offset)
    for segment in log.segments[last:]:
        segment.close()
    ended = log.transactions.ended
    log.clear_producers()
    if not snapshot or not log.restore_producers(snapshot):
        snapshot_offset = 0
    first = min(log.index_of(snapshot_offset), last)
    replaced = log.segments[first:last + 1]
    kept = log.segments[:first]
    log.segments = kept + [log.new_segment((<Segment>old).base_offset) for old in replaced]
    log.active = <Segment>log.segments[-1]
    log.unsealed = []
    log.unsynced_indexes = [segment for segment in log.unsynced_indexes if segment in kept]
    log.epochs = list(epochs)
    scan_begin(&scan, (<Segment>log.segments[first]).base_offset, end_offset, end_offset,
               False)
    for i in range(first, last + 1):
        old = <Segment>replaced[i - first]
        old.close()
        segment = <Segment>log.segments[i]
        scan.next_offset = segment.base_offset
        scan_segment(log, segment, &scan,
                     (<Segment>log.segments[i + 1]).base_offset if i < last else -1,
                     snapshot_offset, chunk)
        keep_damages(old, segment, end_offset)
        # Entries that stayed may not be on the disk yet either.
        segment.is_index_dirty = segment.has_unsynced_aborts = True
        if i < last:
            must(segment.finish_index(), log, "cannot write an index")
            log.unsynced_indexes.append(segment)
            segment.is_settled = True
            segment.close()
    segment = log.active
    if segment.size < segment.reserved:
        # The rest of the file has no batch that could be found: its leader sends it again.
        end_offset = min(end_offset, scan.next_offset)
        must(cut_file(segment, segment.size), log, "cannot cut a segment")
    if scan.next_offset < snapshot_offset:
        log.clear_producers()   # the snapshot has batches that are not in the log
    segment.is_settled = True
    if segment.damaged is not None:
        begin_after_damage(log, end_offset)
    segment.close()
    log.transactions.restored = [each for each in ended if each[1] < end_offset]
    segment = <Segment>log.segments[last]
    restart(log, end_offset, high_watermark, base_offset, segment.written)
    return end_offset


cdef int keep_damages(Segment old, Segment segment, int64_t end_offset) except -1:
    # A check may have found what the scan does not see. (Records that a file has lost at its end
    # are damage without bytes.)
    if old.damaged is None:
        return 0
    segment.set_damaged([*{*(segment.damaged or ()), *[
        each for each in old.damaged if each[0] < end_offset and each[3] <= segment.written]}])
    return 0


cdef int begin_after_damage(PartitionLog log, int64_t end_offset) except -1:
    # Append to a new file; the damaged one stays as it is.
    cdef Segment segment
    must(log.active.finish_index(), log, "cannot write an index")
    log.unsynced_indexes.append(log.active)
    segment = log.new_segment(end_offset)
    must(segment.open(True), log, "cannot create a segment")
    must(sync_names(log), log, "cannot sync the folder")
    segment.is_settled = True
    segment.close()
    log.segments.append(segment)
    log.active = segment
    return 0


cdef int sync_names(PartitionLog log):
    cdef const char* folder = log.folder_path
    with nogil:
        return file_sync_folder(folder)


def recreate(PartitionLog log, int64_t base_offset):
    """Begin an emptied log anew at another offset, with a file of its own. Raises StorageError.

    Returns the base offset of the old file, which the caller removes; None if it is the same file.
    """
    cdef Segment old = log.active
    cdef Segment segment
    if old.base_offset != base_offset:
        segment = log.new_segment(base_offset)
        must(segment.open(True), log, "cannot create a segment")
        must(sync_names(log), log, "cannot sync the folder")
        segment.close()
        log.segments = [segment]
        log.unsynced_indexes = []
        log.active = segment
        old.close()
    log.clear_producers()
    log.log_start_offset = base_offset
    log.epochs = [(0, base_offset)]
    log.high_watermark = base_offset
    restart(log, base_offset, base_offset, 0, 0)
    return None if log.active is old else old.base_offset


def set_epochs(PartitionLog log, list epochs not None):
    """Replace the leader epochs, (epoch, start offset), oldest first."""
    log.epochs = list(epochs)
    log.leader_epoch = log.epochs[-1][0]
    log.turn.log_changes += 1


cdef int restart(PartitionLog log, int64_t end_offset, int64_t high_watermark,
                 int64_t cut_base, int64_t cut_size) except -1:
    # All that the log has is on the disk. Its high watermark stays where it was, if that is left.
    # Every cut ends here: whoever copies its files notices it by the count (moving.pyx).
    log.cut_count += 1
    log.cut_base, log.cut_size = cut_base, cut_size
    log.log_end_offset = log.durable_end = end_offset
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.leader_epoch = log.epochs[-1][0] if log.epochs else 0
    log.has_unsynced_cut = False
    log.unsynced_since_ms = 0
    log.high_watermark = end_offset
    log.visible_segment = log.active
    log.visible_position = log.active.written
    log.visible_max_timestamp = log.active.max_timestamp
    if log.replication is not None:
        forget_ends(log)
    log.restore_watermark(high_watermark)
    log.transactions.lowered(log.high_watermark)
    if log.replication is not None:
        log.replication.leader_watermark = log.high_watermark
    log.turn.log_changes += 1
    return 0


cdef void forget_ends(PartitionLog log) noexcept:
    cdef Replication replication = log.replication
    cdef int i
    replication.written = replication.synced = log.visible_end()
    for i in range(PLACES_KEPT):
        replication.places[i] = replication.written
