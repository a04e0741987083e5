"""Opens a log: uses the state that a clean stop left, or finds where the log ends.

From the segment that holds the recovery point on, every batch is read (`recovery_scan`) until the
log ends. A damaged range before that is kept, its reads are refused, and everything after it is
served. Bytes after the end are truncated. Under group-commit the truncation and everything
recovered are synced before the log is used (`settle`); under `os` the next sync of the log does
that, and until then the recovery point stays where it was: should the truncation be lost in a
crash, the bytes that reappear have an older leader epoch.

A damaged last segment takes no more appends: a new one begins after it.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t

from broker._native.kernel.file_ops cimport (
    file_sync_data,
    file_sync_folder,
    file_truncate,
    is_no_space,
)
from broker._native.log.header_window cimport (
    CODEC_POSITION,
    OFFSET_FIELDS_SIZE,
    WINDOW_SIZE,
    HeaderWindow,
    batch_size,
    header_at,
    window_open,
)
from broker._native.log.recovery_scan cimport (
    _Chunk,
    Scan,
    may_skip_to,
    scan_begin,
    scan_segment,
)
from broker._native.log.partition_log cimport PartitionLog
from broker._native.log.segment cimport Segment
from broker._native.log.segmented_log cimport must
from broker._native.log.segment_file cimport PATH_SIZE
from broker._native.log.transaction_index cimport aborted_is_whole
from broker._native.records.record_batch cimport ATTRIBUTE_CONTROL

import logging

from broker.model.errors import StorageError

logger = logging.getLogger(__name__)


cdef bint take_over(PartitionLog log, Segment segment, int64_t end_offset=-1) except -1:
    # Use a segment that needs no recovery: it is read only when its index is lost or of another
    # file. (Index files are written without a sync, so a power cut may empty them.) False when its
    # aborted transactions are lost: to find them, the whole log must be read.
    #
    # With the `end_offset` of a segment that was synced with its index, what is invalid then is
    # damage, and so is what the index has and the file has lost at its end. Without its index, or
    # if that names none of those batches, a file that ends too early looks like one that was
    # compacted: then its digest tells (core/maintenance/scrub.py).
    cdef Scan scan
    cdef int64_t gaps_end = INT64_MAX
    cdef int status
    must(segment.attach(), log, "cannot open a segment")
    if not segment.has_aborted:
        return False
    if segment.has_index or (segment.size == 0 and not segment.is_cut_off):
        return True
    logger.warning("index rebuilt: folder=%s base_offset=%d: the files are damaged or not there",
                   log.folder, segment.base_offset)
    if segment.is_cut_off and end_offset >= 0:
        gaps_end = end_offset - 1    # none up to the next segment
    scan_begin(&scan, segment.base_offset, gaps_end, max(end_offset, 0), False)
    scan_segment(log, segment, &scan, end_offset, INT64_MAX, _Chunk())
    segment.size = segment.written = segment.reserved
    status = segment.finish_index()
    if not is_no_space(status):   # else it stays in memory, like that of an active segment
        must(status, log, "cannot write an index")
    log.unsynced_indexes.append(segment)
    segment.is_settled = True
    segment.close()
    return True


def create(PartitionLog log, int64_t base_offset=0):
    """Create the first file of an empty partition; the caller syncs the parent folders."""
    cdef Segment segment = log.new_segment(base_offset)
    must(segment.open(True), log, "cannot create a segment")
    segment.close()
    log.segments = [segment]
    log.unsealed = []
    log.unsynced_indexes = []
    log.has_unsynced_cut = False
    log.clear_producers()
    finish(log, base_offset, base_offset, [(0, base_offset)])


def attach(PartitionLog log, list base_offsets, *, int64_t log_start_offset, int64_t log_end_offset,
           list epochs, bytes snapshot):
    """Open a log after a clean stop: no segment is read, unless its index is not its own.

    `epochs` are (epoch, start offset) pairs; `snapshot` is the producers' state at the end, b"" for
    none. Returns False, with the log still closed, when it is damaged: `recover` then reads the
    log.
    """
    cdef Segment segment
    if snapshot and not log.restore_producers(snapshot):
        return False
    log.segments = [log.new_segment(base) for base in base_offsets]
    for segment in log.segments:
        if not take_over(log, segment):
            log.clear_producers()
            log.unsynced_indexes = []
            return False
    finish(log, log_start_offset, log_end_offset, epochs)
    return True


def has_marker(PartitionLog log, int64_t offset):
    """Return whether a control batch is at an offset of an attached log or after it.

    The state at the log's end does not have the transactions that have ended there. Also True where
    a header cannot be read. Raises StorageError when a file cannot be opened.
    """
    cdef Segment segment
    cdef bint is_found
    for segment in log.segments[log.index_of(offset):]:
        if segment.written > 0:
            must(segment.open(False), log, "cannot open a segment")
            is_found = has_marker_from(segment, segment.locate(max(offset, segment.base_offset)))
            segment.close()
            if is_found:
                return True
    return False


cdef bint has_marker_from(Segment segment, int64_t position):
    cdef HeaderWindow window
    cdef const uint8_t* header
    cdef int fd = segment.fd
    cdef int64_t end = segment.written
    if position < 0:
        return True
    with nogil:
        window_open(&window, fd, WINDOW_SIZE)
        while position < end:
            header = header_at(&window, position, OFFSET_FIELDS_SIZE)
            if header == NULL or batch_size(header) == 0 or (
                    header[CODEC_POSITION] & ATTRIBUTE_CONTROL):
                return True
            position += batch_size(header)
    return False


def detach(PartitionLog log):
    """Undo `attach`, or a `recover`, before the log is used: `recover` is next."""
    cdef Segment segment
    for segment in log.segments:
        segment.close()
    log.clear_producers()
    log.segments = []
    log.unsynced_indexes = []


cdef void finish(PartitionLog log, int64_t log_start_offset, int64_t log_end_offset, list epochs):
    log.active = log.visible_segment = <Segment>log.segments[-1]
    log.visible_position = log.active.written
    log.visible_max_timestamp = log.active.max_timestamp
    log.log_start_offset = log_start_offset
    log.log_end_offset = log.durable_end = log.high_watermark = log_end_offset
    log.transactions.opened()
    log.epochs = [entry for entry in epochs if entry[1] <= log_end_offset]
    log.leader_epoch = log.epochs[-1][0] if log.epochs else 0


def recover(PartitionLog log, list base_offsets, *, int64_t log_start_offset,
            int64_t recovery_point, list epochs, bytes snapshot, int64_t snapshot_offset,
            int64_t synced_end=0, bint has_gaps=False, bint is_copy=False,
            int64_t high_watermark=INT64_MAX):
    """Find where the log ends after an unclean stop, and truncate it there.

    Everything below `synced_end`, and below the recovery point, was on the disk once: an invalid
    batch there is damaged, and reads of it are refused. With `has_gaps`, batches may be missing
    anywhere, not only below the recovery point; with `is_copy`, between two batches of a segment.
    A replica's `high_watermark` is restored next: transactions that have ended above it are kept.

    Without `epochs` the whole log is read for them: an epoch below that of an older batch would
    make the next recovery truncate there. `snapshot` (b"" for none) is the producers' state at
    `snapshot_offset`; later batches are added to it from the log. If the log ends before that, no
    producers are known: the caller has them read with an earlier snapshot (`detach`). Returns the
    base offsets of whole segments after the end: the caller renames their files. Raises
    StorageError when a file cannot be read or truncated.
    """
    cdef _Chunk chunk = _Chunk()
    cdef Segment segment
    cdef Scan scan
    cdef Py_ssize_t first, i
    cdef int64_t read_from = recovery_point if epochs else 0
    cdef bint is_whole
    cdef list after_end = []
    cdef list unsynced = []
    if not snapshot or not log.restore_producers(snapshot):
        snapshot_offset = 0
    log.epochs = list(epochs)
    log.segments = [log.new_segment(base) for base in base_offsets]
    # Segments are read from the one that holds the recovery point, or where the producers' state
    # must be rebuilt from.
    if not are_aborted_known(log, snapshot_offset):
        log.clear_producers()
        snapshot_offset = 0
    log.transactions.restored_from = high_watermark
    first = 0
    for i in range(len(base_offsets)):
        if base_offsets[i] <= min(read_from, snapshot_offset):
            first = i
    for i in range(first):
        if not take_over(log, <Segment>log.segments[i], base_offsets[i + 1]):
            raise StorageError(f"{log.folder}: cannot read an index of aborted transactions")
    scan_begin(&scan, base_offsets[first], INT64_MAX if has_gaps else recovery_point,
               max(recovery_point, synced_end), is_copy)
    is_whole = True
    for i in range(first, len(base_offsets)):
        segment = <Segment>log.segments[i]
        if segment.base_offset != scan.next_offset and not (
                is_whole and may_skip_to(&scan, segment.base_offset)):
            # The log ends in the segment before this one. (A segment that was full when the broker
            # died still has its preallocated tail, and the next one follows it without a gap.)
            after_end = base_offsets[i:]
            break
        scan.next_offset = segment.base_offset
        scan_segment(log, segment, &scan,
                     base_offsets[i + 1] if i + 1 < len(base_offsets) else -1, snapshot_offset,
                     chunk)
        # Before a gap made by compaction nothing is truncated: the file ends with a batch.
        is_whole = segment.size == segment.reserved
        if not is_whole:
            must(truncate_segment(segment), log, "cannot cut a segment")
            log.has_unsynced_cut = True
        if i + 1 < len(base_offsets):   # the active one's is in memory, written when it goes idle
            segment.finish_index()
            log.unsynced_indexes.append(segment)
        if is_whole and scan.next_offset <= recovery_point:
            segment.is_settled = True   # all of it was synced before
            segment.close()
        elif log.turn.files.is_half_full() or len(unsynced) >= log.turn.files.unsealed_max():
            must(sync_segment(segment), log, "cannot sync a segment")
            must(sync_folder(log), log, "cannot sync the folder")
            segment.is_settled = True   # closed to leave descriptors for the next ones
            segment.close()
        else:
            unsynced.append(segment)
    if after_end:
        log.segments = log.segments[:len(base_offsets) - len(after_end)]
    if (<Segment>log.segments[-1]).damaged is not None:
        begin_after_damage(log, scan.next_offset, unsynced)
    if scan.next_offset < snapshot_offset:
        log.clear_producers()   # the snapshot has batches that are not in the log
    finish(log, min(log_start_offset, scan.next_offset), scan.next_offset,
           log.epochs or [(0, min(base_offsets[0], scan.next_offset))])
    log.durable_end = min(recovery_point, log.log_end_offset)
    log.unsealed = [segment for segment in unsynced if segment is not log.active]
    return after_end


cdef int begin_after_damage(PartitionLog log, int64_t next_offset, list unsynced) except -1:
    # Append to a new file; the damaged one stays as it is for inspection.
    cdef Segment damaged = <Segment>log.segments[-1]
    cdef Segment segment = log.new_segment(next_offset)
    damaged.finish_index()
    log.unsynced_indexes.append(damaged)
    must(segment.open(True), log, "cannot create a segment")
    log.segments.append(segment)
    unsynced.append(segment)
    return 0


cdef bint are_aborted_known(PartitionLog log, int64_t snapshot_offset) except -1:
    # Return whether the segments that end before the producers' snapshot still have their index of
    # aborted transactions: those after the snapshot are found again in any case.
    cdef char path[PATH_SIZE]
    cdef Segment segment, following
    for segment, following in zip(log.segments, log.segments[1:], strict=False):
        if following.base_offset > snapshot_offset:
            break
        segment.path(path, b".txnindex")
        if not aborted_is_whole(path, segment.base_offset):
            logger.warning("aborted transactions looked for in the whole log: folder=%s "
                           "base_offset=%d: their index is damaged", log.folder,
                           segment.base_offset)
            return False
    return True


def cut(PartitionLog log):
    """Write staged batches and truncate preallocated tails, without a sync.

    Returns the log end offset, or -1 when the log is offline: its tail may not be on the disk.
    The commit threads must have finished, or have no job of this log.
    """
    cdef Segment segment
    cdef int status
    if log.is_offline:
        return -1
    status = log.write_staged()
    if is_no_space(status):
        log.take_offline("no space for batches that were appended last and not acknowledged")
        return -1
    if status < 0:
        log.fail(status)
        return -1
    for segment in (*log.unsealed, log.active):
        if segment.fd >= 0 and segment.reserved > segment.written:
            must(truncate_segment(segment), log, "cannot cut a segment")
            log.has_unsynced_cut = True
    for segment in (*log.unsynced_indexes, *log.unsealed, log.active):
        must(segment.finish_index(), log, "cannot write an index")
    if log.active.is_index_dirty and log.active not in log.unsynced_indexes:
        log.unsynced_indexes.append(log.active)
    return log.log_end_offset


def settle(PartitionLog log, *, bint is_synced):
    """Sync what was written and truncated, unless the caller has, and close the files.

    What the page cache has after a kill may not be on the disk, and what can be read counts as
    durable: so a recovered log is settled before it is used, under group-commit. (Under `os` the
    log's next sync is enough.) May be called in any thread. A replica's high watermark stays.
    """
    cdef Segment segment
    for segment in (*log.unsealed, log.active):
        if not is_synced:
            must(sync_segment(segment), log, "cannot sync a segment")
        segment.is_settled = True
    if log.unsealed and not is_synced:
        must(sync_folder(log), log, "cannot sync the folder")
    log.unsealed = []
    log.has_unsynced_cut = False
    log.durable_end = log.log_end_offset
    if not log.is_replicated:
        log.advance(log.log_end_offset, log.active, log.active.written, log.active.max_timestamp)
    for segment in log.segments:
        segment.close()


cdef int truncate_segment(Segment segment):
    # Without the GIL: some file systems trim the freed blocks on the disk before they return.
    cdef int fd = segment.fd
    cdef int64_t size = segment.written
    cdef int status
    with nogil:
        status = file_truncate(fd, size)
    if status == 0:
        segment.reserved = size
    return status


cdef int sync_segment(Segment segment):
    cdef int status = segment.open(False)
    cdef int fd = segment.fd
    if status < 0:
        return status
    with nogil:
        return file_sync_data(fd)


cdef int sync_folder(PartitionLog log):
    cdef const char* folder = log.folder_path
    with nogil:
        return file_sync_folder(folder)


def close(PartitionLog log):
    """Write and sync everything and close the files; as `cut`, then `settle`."""
    end_offset = cut(log)
    if end_offset >= 0:
        settle(log, is_synced=False)
    return end_offset
