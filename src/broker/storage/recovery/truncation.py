"""Cuts the log of a replica at an offset, so that any crash leaves a log with no wrong record.

    0  producers before the segment of the cut read in steps, if there is no snapshot near it
    1  swaps of a compaction that was ended    completed or undone
    2  what is known of the log's end          recovery point, sealed offset, high watermark and, if
                                               needed, the log start are lowered; epochs removed
    3  files beside the segments               of those after the cut, and of the one that is cut;
                                               producers' snapshots after the cut
    4  the segments after the cut              newest first
    5  the segment with the cut                truncated and synced
    6  state in memory                         rebuilt (`_native.log.truncation`)

Each step is durable before the next, except for the order within step 4: whichever of those
segments a crash leaves, recovery finds that they do not continue the log. From step 2 on recovery
reads the log from the cut on, so whatever is there is found or not found by reading it: the log
that it opens is the log before the cut, the log after it, or ends in between. Its bytes are those
of the old log, because new ones are appended only after step 5.

In memory the log is unchanged until step 6. When a step fails, the log cannot be used before a
restart; except that a disk that is full at step 1 or 2 is reported by DiskFull: the log is as it
was, and may be cut later.
"""

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from broker._native.kernel import file_ops
from broker._native.log import seal, truncation
from broker._native.log.partition_log import PartitionLog
from broker.model.errors import DiskFull, StorageError
from broker.model.limits import SEGMENT_CHECK_STEP_BYTES
from broker.segments import text_files
from broker.segments.names import (
    DAMAGE,
    DIGEST,
    LOG,
    SEGMENT_SUFFIXES,
    SNAPSHOT,
    file_name,
    offsets_of,
)
from broker.storage.checkpoints import checkpoint
from broker.storage.checkpoints.offset_checkpoints import OffsetCheckpoints
from broker.storage.files import damages, swap
from broker.storage.files.side_files import SideFiles

_log = logging.getLogger(__name__)


class EpochEnds(Protocol):
    """What a log knows of its leader epochs: implemented by the native PartitionLog."""

    @property
    def leader_epoch(self) -> int:
        """The leader epoch of its last records."""

    @property
    def log_end_offset(self) -> int:
        """The offset of the next record."""

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch up to this one, and its end; (-1, -1): there is none."""


def cut_point(log: EpochEnds, epoch: int, end_offset: int) -> int:
    """Return where to cut a copy whose leader has an epoch up to an offset, and not what follows.

    That is where the largest epoch up to that one ends in the copy, if it ends earlier.
    """
    if epoch >= log.leader_epoch:
        return min(end_offset, log.log_end_offset)
    _, own_end = log.epoch_end(epoch)
    return min(end_offset, max(own_end, 0))


class Truncation:
    """Cuts logs of one data directory, in the I/O thread, while each is held."""

    def __init__(self, offsets: OffsetCheckpoints, side_files: SideFiles) -> None:
        """Keep what it changes."""
        self._offsets = offsets
        self._side_files = side_files

    def read_before(self, log: PartitionLog, offset: int) -> Iterator[None]:
        """Write a snapshot of the producers at the segment that a cut is in, if there is none.

        The cut then reads only that segment. Yields between small steps: as many segments as were
        written since the newest snapshot before the cut are read. Raises as `truncate`.
        """
        folder = Path(log.folder)
        bases = [base for base, _, _ in log.segment_entries if base <= offset]
        names = file_ops.list_folder(log.folder)
        snapshots = [each for each in offsets_of(names, SNAPSHOT) if each <= offset]
        newest = snapshots[-1] if snapshots else 0
        if len(bases) < 2 or newest >= bases[-1]:  # noqa: PLR2004 (none is before the cut's)
            return
        content = _snapshot(folder, newest) if snapshots else b""
        reading = truncation.EarlierProducers(log, bases, content, newest)
        try:
            while reading.step(SEGMENT_CHECK_STEP_BYTES):
                yield
            if reading.is_known:  # else there is damage, which the cut itself steps over
                file = folder / file_name(bases[-1], SNAPSHOT)
                file_ops.write_file_atomic(str(file), reading.snapshot)
        finally:
            reading.close()

    def truncate(self, log: PartitionLog, offset: int) -> None:
        """Remove all batches that have an offset from `offset` on. StorageError when that fails.

        Epochs that begin there or later are removed even if no batch is: a leader's epoch may have
        begun at the end of this log without one. If the damage there begins below the log start,
        the log begins anew at its start: what was deleted must not be copied again.
        """
        if offset < log.segment_entries[0][0]:
            self.begin_anew(log, offset)
            return
        swap.resolve(Path(log.folder), {base for base, _, _ in log.segment_entries})
        found = truncation.plan(log, offset)
        if found is None:
            epochs = _epochs_before(log, log.log_end_offset)
            if epochs != log.epoch_entries:
                self._write_epochs(log, epochs)
                truncation.set_epochs(log, epochs)
            return
        start = log.log_start_offset
        if found.end_offset < start <= offset and log.first_damage == start:
            self.begin_anew(log, start)
            return
        before, readable = log.log_end_offset, _readable(log)
        self._cut(log, found, min(log.log_start_offset, found.end_offset))
        _log.info("log cut: %r offset=%d before=%d", log, offset, before)
        _tell_removed(log, readable)

    def begin_anew(self, log: PartitionLog, offset: int) -> None:
        """Remove everything; the log begins, and ends, at an offset. StorageError if that fails.

        The files of the log at its old place are emptied first, as by any other cut.
        """
        base_offset, before = log.segment_entries[0][0], log.log_end_offset
        readable = _readable(log)
        folder = Path(log.folder)
        swap.resolve(folder, {base for base, _, _ in log.segment_entries})
        found = truncation.plan(log, base_offset)
        if found is not None:
            # A start that finds the log ending before its start begins it anew there itself.
            start = max(offset, log.log_start_offset)
            self._cut(log, found._replace(end_offset=min(offset, base_offset)), start)
        self._lower(log, offset, offset)
        with _changing(log):
            old = truncation.recreate(log, offset)
            if old is not None:
                file_ops.remove(str(folder / file_name(old, LOG)))
                file_ops.sync_folder(log.folder)
            self._write_epochs(log, log.epoch_entries)
        self._side_files.found(log, 0)
        _log.warning("log begun anew: %r end_before=%d", log, before)
        _tell_removed(log, readable)

    def _cut(self, log: PartitionLog, found: truncation.Cut, log_start_offset: int) -> None:
        folder = Path(log.folder)
        epochs = _epochs_before(log, found.end_offset)
        self._lower(log, found.end_offset, log_start_offset)
        self._write_epochs(log, epochs)
        with _changing(log):
            self._change(log, folder, found, epochs)

    def _change(
        self, log: PartitionLog, folder: Path, found: truncation.Cut, epochs: list[tuple[int, int]]
    ) -> None:
        beside = [suffix for suffix in SEGMENT_SUFFIXES if suffix != LOG]
        _remove(folder, found.removed, beside)
        _remove(folder, [found.base_offset], [DIGEST, DAMAGE])
        snapshots = offsets_of(file_ops.list_folder(log.folder), SNAPSHOT)
        _remove(folder, [each for each in snapshots if each > found.end_offset], [SNAPSHOT])
        file_ops.sync_folder(log.folder)
        _remove(folder, found.removed, [LOG])
        truncation.cut(log, found.base_offset, found.size)
        file_ops.sync_folder(log.folder)
        end_offset, offset = self._rebuild(log, folder, found, epochs)
        if end_offset < found.end_offset:
            self._lower(log, end_offset, min(log.log_start_offset, end_offset))
        self._write_epochs(log, log.epoch_entries)
        self._side_files.found(log, offset)
        damages.save(log, [base for base, _, _ in log.segment_entries[:-1]])

    def _rebuild(
        self, log: PartitionLog, folder: Path, found: truncation.Cut, epochs: list[tuple[int, int]]
    ) -> tuple[int, int]:
        """Return where the log ends, and the offset of the snapshot that its producers are from."""
        snapshots = offsets_of(file_ops.list_folder(log.folder), SNAPSHOT)
        end_offset = found.end_offset
        while True:
            offset = snapshots[-1] if snapshots else 0
            end_offset = truncation.rebuild(
                log,
                found.base_offset,
                end_offset,
                epochs=epochs,
                snapshot=_snapshot(folder, offset) if snapshots else b"",
                snapshot_offset=offset,
            )
            if offset <= end_offset:
                return end_offset, offset
            _remove(folder, [snapshots.pop()], [SNAPSHOT])  # of batches that cannot be read

    def _lower(self, log: PartitionLog, offset: int, log_start_offset: int) -> None:
        self._offsets.lower((log.topic, log.partition), offset, log_start_offset)
        if seal.sealed_offset(log.folder) > offset:
            file_ops.write_file_atomic(
                str(Path(log.folder) / seal.FILE_NAME), seal.note_text(offset)
            )

    def _write_epochs(self, log: PartitionLog, epochs: list[tuple[int, int]]) -> None:
        file = Path(log.folder) / text_files.LEADER_EPOCHS
        if text_files.read_leader_epochs(Path(log.folder)) != epochs:
            file_ops.write_file_atomic(str(file), checkpoint.leader_epochs(epochs).encode())


def _readable(log: PartitionLog) -> tuple[int, int]:
    return log.log_start_offset, log.high_watermark


def _tell_removed(log: PartitionLog, readable: tuple[int, int]) -> None:
    """Log how many records are gone that could be read before, if any are."""
    start, watermark = readable
    end = max(start, log.high_watermark)
    if end < watermark:
        _log.warning(
            "records below the high watermark are removed, they are damaged or their leader"
            " does not have them: folder=%s records=%d offsets=%d..%d",
            *(Path(log.folder).name, watermark - end, end, watermark),
        )


@contextmanager
def _changing(log: PartitionLog) -> Iterator[None]:
    """Report that the disk is full as a failure: the log is half cut."""
    try:
        yield
    except DiskFull as error:
        raise StorageError(f"{log.folder}: {error}") from error


def _epochs_before(log: PartitionLog, end_offset: int) -> list[tuple[int, int]]:
    """Return the epochs of a log that is cut: those that begin before its end."""
    epochs = [(epoch, start) for epoch, start in log.epoch_entries if start < end_offset]
    return epochs or [(0, min(log.log_start_offset, end_offset))]


def _snapshot(folder: Path, offset: int) -> bytes:
    return file_ops.read_file(str(folder / file_name(offset, SNAPSHOT)))


def _remove(folder: Path, base_offsets: Iterable[int], suffixes: Iterable[str]) -> None:
    """Remove files, segment after segment; those that are missing are ignored."""
    names = [file_name(base, suffix) for base in base_offsets for suffix in suffixes]
    file_ops.remove_all([str(folder / name) for name in names])
