"""Opening a log: taking over what a clean stop left, or finding where the log really ends.

Base offset, leader epoch and CRC decide where a log ends, never a marker (design.md section 5).
From the segment that holds the recovery point on, every batch is read; the log ends before the
first that

    is cut short, has no valid header or a wrong CRC,
    does not begin at the offset where the one before ended, or
    has a leader epoch below the one before: it survived behind a torn write of an older life.

Below the recovery point all has been synced once, and compaction has thinned it out: there batches
may be missing between two others, at the beginning of a segment and at its end.

What stands behind is cut off. Under group-commit the cut and everything recovered are synced before
the log is used (`settle`); under `os` the next sync of the log sees to it, and until then the
recovery point stays where it was: should the cut be lost, what stood behind has an older epoch.
"""

from libc.errno cimport ENOMEM
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport strerror

from broker._native.kernel.cursor cimport Cursor, load_int32
from broker._native.kernel.file_ops cimport (
    file_pread,
    file_sync_data,
    file_sync_folder,
    file_truncate,
    is_no_space,
)
from broker._native.log.partition_log cimport PartitionLog
from broker._native.records.record_batch cimport (
    ATTRIBUTE_CONTROL,
    BATCH_HEADER_SIZE,
    BATCH_LENGTH_END,
    BATCH_OK,
    BatchInfo,
    batch_check_crc,
    batch_header,
)
from broker._native.log.segment cimport PATH_SIZE, Segment
from broker._native.log.transaction_index cimport aborted_is_whole

import logging

from broker.model import limits
from broker.model.errors import StorageError

logger = logging.getLogger(__name__)

cdef size_t RECOVERY_READ_BYTES = limits.RECOVERY_READ_BYTES


cdef struct Scan:
    int64_t next_offset        # where the next batch must begin
    int64_t gaps_end           # up to here it may begin later
    int32_t epoch              # of the last batch
    int64_t position           # end of the last good batch


cdef class _Chunk:
    # A window over one file; grows only to hold a batch that the file really has.
    cdef uint8_t* bytes
    cdef size_t capacity
    cdef int64_t start
    cdef size_t size

    def __cinit__(self):
        self.capacity = RECOVERY_READ_BYTES
        self.bytes = <uint8_t*>malloc(RECOVERY_READ_BYTES)
        if self.bytes == NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.bytes)

    cdef int hold(self, int fd, int64_t position, size_t size) noexcept:
        # Make [position, position + size) part of the window, or as much as the file has.
        cdef void* grown
        cdef ssize_t count
        if position >= self.start and position + size <= self.start + self.size:
            return 0
        if size > self.capacity:
            grown = realloc(self.bytes, size)
            if grown == NULL:
                return -ENOMEM
            self.bytes = <uint8_t*>grown
            self.capacity = size
        with nogil:   # the loop serves others meanwhile
            count = file_pread(fd, self.bytes, self.capacity, position)
        if count < 0:
            return <int>count
        self.start = position
        self.size = <size_t>count
        return 0


cdef int must(int status, PartitionLog log, what) except -1:
    if status < 0:
        raise StorageError(f"{log.folder}: {what}: {(<bytes>strerror(-status)).decode()}")
    return 0


cdef bint next_batch(_Chunk chunk, Segment segment, Scan* scan, BatchInfo* info,
                     int* status) noexcept:
    # Whether a good batch follows; *status < 0 when the file cannot be read.
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
    if info.base_offset != scan.next_offset and not (
            scan.next_offset < info.base_offset <= scan.gaps_end):
        return False
    if info.leader_epoch < scan.epoch:
        return False
    return info.last_offset_delta >= 0 and batch_check_crc(
        chunk.bytes + (scan.position - chunk.start), info) == BATCH_OK


cdef int scan_segment(PartitionLog log, Segment segment, Scan* scan, int64_t producers_from,
                      _Chunk chunk) except -1:
    # Step over the good batches of one segment, rebuilding its index and the producers' state.
    cdef BatchInfo info
    cdef const uint8_t* batch
    cdef int status = 0
    segment.is_settled = False   # it stays open while it is read
    must(segment.open(False), log, "cannot open a segment")
    must(segment.drop_index(producers_from), log, "cannot cut an index")
    segment.size = 0
    segment.max_timestamp = -1
    scan.position = 0
    chunk.start = chunk.size = 0
    while next_batch(chunk, segment, scan, &info, &status):
        segment.note(&info, info.base_offset, log.index_interval_bytes)
        if info.base_offset >= producers_from:
            batch = chunk.bytes + (scan.position - chunk.start)
            if info.attributes & ATTRIBUTE_CONTROL:
                must(log.note_abort(segment, batch, &info, info.base_offset), log,
                     "cannot write an index of aborted transactions")
            log.remember_producer(batch, &info, info.base_offset)
        if info.leader_epoch > scan.epoch:
            if not log.epochs or log.epochs[-1][0] < info.leader_epoch:
                log.epochs.append((info.leader_epoch, info.base_offset))
            scan.epoch = info.leader_epoch
        scan.next_offset = info.base_offset + info.last_offset_delta + 1
        scan.position += <int64_t>info.size
    must(status, log, "cannot read a segment")
    segment.written = segment.size
    return 0


cdef bint take_over(PartitionLog log, Segment segment) except -1:
    # A segment that needs no recovery: it is read only when its index is lost or of another file.
    # (Index files are written without a sync, so a power cut may empty them.) False when nobody
    # knows any more which transactions were aborted: that takes a look at all of the log.
    cdef Scan scan
    cdef int status
    must(segment.attach(), log, "cannot open a segment")
    if not segment.has_aborted:
        return False
    if segment.size == 0 or segment.has_index:
        return True
    logger.warning("index rebuilt: folder=%s base_offset=%d: the files are damaged or not there",
                   log.folder, segment.base_offset)
    scan.next_offset = segment.base_offset
    scan.gaps_end = INT64_MAX
    scan.epoch = -1
    scan_segment(log, segment, &scan, INT64_MAX, _Chunk())
    segment.size = segment.written = segment.reserved
    status = segment.finish_index()
    if not is_no_space(status):   # else it stays in memory, as one that is appended to
        must(status, log, "cannot write an index")
    log.unsynced_indexes.append(segment)
    segment.is_settled = True
    segment.close()
    return True


def create(PartitionLog log, int64_t base_offset=0):
    """Make the first file of an empty partition; the caller syncs the names above it."""
    cdef Segment segment = log.new_segment(base_offset)
    must(segment.open(True), log, "cannot create a segment")
    segment.close()
    log.segments = [segment]
    log.unsealed = []
    log.unsynced_indexes = []
    log.has_unsynced_cut = False
    log.forget_producers()
    finish(log, base_offset, base_offset, [(0, base_offset)])


def attach(PartitionLog log, list base_offsets, *, int64_t log_start_offset, int64_t log_end_offset,
           list epochs, bytes snapshot):
    """Take over a log after a clean stop: no segment is read, unless its index is not its own.

    `epochs` are (epoch, start offset) pairs; `snapshot` is the producers' state at the end, b"" for
    none. Returns False, with nothing taken over, when it is damaged: `recover` then reads the log.
    """
    cdef Segment segment
    if snapshot and not log.restore_producers(snapshot):
        return False
    log.segments = [log.new_segment(base) for base in base_offsets]
    for segment in log.segments:
        if not take_over(log, segment):
            log.forget_producers()
            log.unsynced_indexes = []
            return False
    finish(log, log_start_offset, log_end_offset, epochs)
    return True


def detach(PartitionLog log):
    """Let go of what `attach` has taken over, before anybody uses it: `recover` comes next."""
    log.forget_producers()
    log.segments = []
    log.unsynced_indexes = []


cdef void finish(PartitionLog log, int64_t log_start_offset, int64_t log_end_offset, list epochs):
    log.active = log.visible_segment = <Segment>log.segments[-1]
    log.visible_position = log.active.written
    log.visible_max_timestamp = log.active.max_timestamp
    log.log_start_offset = log_start_offset
    log.log_end_offset = log.durable_end = log.high_watermark = log_end_offset
    log.transactions.reached(log_end_offset)
    log.epochs = [entry for entry in epochs if entry[1] <= log_end_offset]
    log.leader_epoch = log.epochs[-1][0] if log.epochs else 0


def recover(PartitionLog log, list base_offsets, *, int64_t log_start_offset,
            int64_t recovery_point, list epochs, bytes snapshot, int64_t snapshot_offset,
            bint has_gaps=False):
    """Find where the log ends after an unclean stop, and cut off what stands behind.

    With `has_gaps`, batches may be missing anywhere, not only below the recovery point.

    Without `epochs` the whole log is read for them: an epoch below that of an older batch would
    make the next recovery cut there. `snapshot` (b"" for none) is the producers' state at
    `snapshot_offset`; later batches are counted in from the log. Returns the base offsets of whole
    segments behind the end: the caller sets their files aside. Raises StorageError when a file
    cannot be read or cut.
    """
    cdef _Chunk chunk = _Chunk()
    cdef Segment segment
    cdef Scan scan
    cdef Py_ssize_t first, i
    cdef int64_t read_from = recovery_point if epochs else 0
    cdef bint is_whole
    cdef list behind = []
    cdef list unsynced = []
    if not snapshot or not log.restore_producers(snapshot):
        snapshot_offset = 0
    log.epochs = list(epochs) or [(0, 0)]
    log.segments = [log.new_segment(base) for base in base_offsets]
    # Segments are read from the one that holds the recovery point, or where the producers' state
    # must be rebuilt from.
    if not are_aborted_known(log, snapshot_offset):
        log.forget_producers()
        snapshot_offset = 0
    first = 0
    for i in range(len(base_offsets)):
        if base_offsets[i] <= min(read_from, snapshot_offset):
            first = i
    for segment in log.segments[:first]:
        if not take_over(log, segment):
            raise StorageError(f"{log.folder}: cannot read an index of aborted transactions")
    scan.next_offset = base_offsets[first]
    scan.gaps_end = INT64_MAX if has_gaps else recovery_point
    scan.epoch = -1
    is_whole = True
    for i in range(first, len(base_offsets)):
        segment = <Segment>log.segments[i]
        if segment.base_offset != scan.next_offset and not (
                is_whole and scan.next_offset < segment.base_offset <= scan.gaps_end):
            # The one before was cut short of here. (A segment that was full when the broker died
            # still has its reserved tail, and the next one follows it without a gap.)
            behind = base_offsets[i:]
            break
        scan.next_offset = segment.base_offset
        scan_segment(log, segment, &scan, snapshot_offset, chunk)
        # Before a gap that compaction made there is nothing to cut: the file ends with a batch.
        is_whole = segment.size == segment.reserved
        if not is_whole:
            must(truncate_segment(segment), log, "cannot cut a segment")
            log.has_unsynced_cut = True
        if i + 1 < len(base_offsets):   # the active one's is in memory, and written when it rests
            segment.finish_index()
            log.unsynced_indexes.append(segment)
        if is_whole and scan.next_offset <= recovery_point:
            segment.is_settled = True   # as it was found it has been synced
            segment.close()
        elif log.turn.files.is_half_full():
            must(sync_segment(segment), log, "cannot sync a segment")
            must(sync_folder(log), log, "cannot sync the folder")
            segment.is_settled = True   # for the next ones to find a descriptor
            segment.close()
        else:
            unsynced.append(segment)
    if behind:
        log.segments = log.segments[:len(base_offsets) - len(behind)]
    if scan.next_offset < snapshot_offset:
        log.forget_producers()   # it tells of batches that are gone
    finish(log, min(log_start_offset, scan.next_offset), scan.next_offset, log.epochs)
    log.durable_end = min(recovery_point, log.log_end_offset)
    log.unsealed = [segment for segment in unsynced if segment is not log.active]
    return behind


cdef bint are_aborted_known(PartitionLog log, int64_t snapshot_offset) except -1:
    # Whether the segments that end before the producers' snapshot still name their aborted
    # transactions: what stands behind the snapshot is found again in any case.
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
    """Write what is staged and cut the reservations off; nothing of it is synced.

    Returns the log end offset, or -1 when the log is offline: its tail is not known to be good.
    The commit threads have finished, or do not know of this log.
    """
    cdef Segment segment
    cdef int status
    if log.is_offline:
        return -1
    status = log.write_staged()
    if is_no_space(status):
        log.take_offline("no room for what was appended last and not acknowledged")
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
    """Sync what was written and cut, unless the caller has, and let go of the files.

    What the page cache shows after a kill may not be on the disk, and what can be read counts as
    durable: so a recovered log is settled before it is used, under group-commit. (Under `os` it
    need not be: its next sync sees to it.) In any thread.
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
    log.advance(log.log_end_offset, log.active, log.active.written, log.active.max_timestamp)
    for segment in log.segments:
        segment.close()


cdef int truncate_segment(Segment segment):
    # Some file systems give the blocks back to the disk at once, and wait for that.
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
    """Write and sync everything and let go of the files; as `cut`, then `settle`."""
    end_offset = cut(log)
    if end_offset >= 0:
        settle(log, is_synced=False)
    return end_offset
