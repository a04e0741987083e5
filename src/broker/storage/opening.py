"""Opening one log that has a folder: what a clean stop left is taken over, all else is recovered.

    the stop was clean, the folder has the segments that it left   taken over
      ... but snapshot, epochs or an index are lost or damaged     read from the recovery point on
      ... other segments: files were restored, removed or cut      read from the first byte on
    the stop was not clean                                         read from the recovery point on

Segments that somebody has put in place are believed as they are: checkpoints and snapshots tell of
other files, so the whole log is read, gaps between its batches count as a compaction's, and what
follows has a leader epoch that no earlier life used.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from broker._native.kernel import file_ops
from broker._native.log import recovery, seal
from broker._native.log.partition_log import PartitionLog
from broker.storage import beside_log, checkpoint, clean_segments, damages, digests
from broker.storage.clean_segments import Digests
from broker.storage.deletion import STRAY_SUFFIX
from broker.storage.folder_plan import FolderPlan, offsets_of, plan_folder
from broker.storage.offset_checkpoints import OffsetCheckpoints
from broker.storage.segment_files import DAMAGE, DIGEST, LOG, SNAPSHOT, file_name
from broker.storage.side_files import SideFiles

_log = logging.getLogger(__name__)


class Opening:
    """Opens the logs of one start, each in any thread."""

    __slots__ = ("_clean", "_epoch", "_is_clean", "_offsets", "_raised_epoch", "_side_files")

    def __init__(
        self,
        offsets: OffsetCheckpoints,
        side_files: SideFiles,
        clean: Digests | None,
        epoch: Callable[[], int],
        raised_epoch: Callable[[], int],
        *,
        is_clean: bool,
    ) -> None:
        """Open logs after a stop that was clean, with these digests of its segments, or was not.

        `epoch` gives the leader epoch of this start; `raised_epoch` one above those of all earlier
        lives, also after a clean stop: it is durable when it returns.
        """
        self._offsets = offsets
        self._side_files = side_files
        self._clean = clean
        self._epoch = epoch
        self._raised_epoch = raised_epoch
        self._is_clean = is_clean

    def load(self, log: PartitionLog, names: list[str]) -> bool:
        """Open a log whose folder has these files.

        False: which of their names are synced is not known. Raises StorageError.
        """
        key = (log.topic, log.partition)
        plan = plan_folder(names, self._offsets.log_start(key))
        for name in plan.removed:
            file_ops.remove(str(Path(log.folder) / name))
        if any(name.endswith((DIGEST, DAMAGE)) for name in plan.removed):
            file_ops.sync_folder(log.folder)  # before the log is written to
        if not plan.base_offsets:
            recovery.create(log, self._offsets.log_start(key))
            return False
        if self._attach(log, plan):
            damages.recall(log, plan.damaged_offsets)
            return True
        is_changed = self._is_clean and not self._is_as_left(log, _sizes(log, plan))
        self._recover(log, plan, is_changed=is_changed)
        found = damages.keep(log, plan.base_offsets)
        damages.recall(log, [base for base in plan.damaged_offsets if base not in found])
        if log.log_end_offset < self._offsets.log_start(key):
            self._begin_anew(log)
            return False
        if log.segment_entries[-1][0] > plan.base_offsets[-1]:
            return False  # behind damage a new one was begun
        # Where a segment has synced records its name is synced, too.
        return not is_changed and plan.base_offsets[-1] < self._offsets.recovery_point(key)

    def _attach(self, log: PartitionLog, plan: FolderPlan) -> bool:
        """Believe what a clean stop has written, if all of it is there and nothing else."""
        folder, bases = Path(log.folder), plan.base_offsets
        log_end = self._offsets.recovery_point((log.topic, log.partition))
        if not self._is_clean or log_end < bases[-1]:
            return False
        # A log that was never written to has no epochs and no producers, and no files that say so.
        snapshot = _read_snapshot(folder, log_end) if log_end else b""
        epochs = checkpoint.read_leader_epochs(folder) if log_end else [(0, 0)]
        if (
            snapshot is None
            or epochs is None
            or not recovery.attach(
                log,
                bases,
                log_start_offset=self._log_start(log, plan),
                log_end_offset=log_end,
                epochs=epochs,
                snapshot=snapshot,
            )
        ):
            return False
        sizes = [(base, size) for base, size, _ in log.segment_entries]  # as they were opened
        if not self._is_as_left(log, sizes):
            recovery.detach(log)
            return False
        if log_end:
            self._side_files.found(log, log_end)
        return True

    def _is_as_left(self, log: PartitionLog, sizes: list[tuple[int, int]]) -> bool:
        key = (log.topic, log.partition)
        found = clean_segments.digest(sizes, self._offsets.log_start(key))
        return clean_segments.is_same(self._clean, key, found)

    def _log_start(self, log: PartitionLog, plan: FolderPlan) -> int:
        return max(self._offsets.log_start((log.topic, log.partition)), plan.base_offsets[0])

    def _recover(self, log: PartitionLog, plan: FolderPlan, *, is_changed: bool) -> None:
        """Read the log from its recovery point on, or all of it, and cut it where it ends."""
        folder = Path(log.folder)
        if is_changed and self._clean is not None:
            _log.warning(
                "segments are not those that the clean stop left, the whole log is read:"
                " folder=%s segments=%d",
                folder,
                len(plan.base_offsets),
            )
        recovery_point = 0 if is_changed else self._offsets.recovery_point(_key(log))
        sealed_offset = seal.sealed_offset(log.folder)
        snapshot_offset, snapshot = _newest_snapshot(folder, plan, recovery_point)
        aborted_before = digests.of_aborted(folder, plan.aborted_offsets)
        behind = recovery.recover(
            log,
            plan.base_offsets,
            log_start_offset=self._log_start(log, plan),
            recovery_point=recovery_point,
            epochs=[] if is_changed else checkpoint.read_leader_epochs(folder) or [],
            snapshot=snapshot,
            snapshot_offset=snapshot_offset,
            # No crash has torn what somebody has put in place; of its last segment he may have
            # taken a copy while it was written to.
            synced_end=plan.base_offsets[-1] if is_changed else sealed_offset,
            has_gaps=is_changed,
        )
        aborted = digests.of_aborted(folder, plan.aborted_offsets)
        # What recovery has made anew of them is not what was recorded.
        remade = [base for base in aborted_before if aborted.get(base) != aborted_before[base]]
        beside_log.remove(folder, remade, [DIGEST])
        for base in behind:
            name = file_name(base, LOG)
            _log.warning("segment behind the log's end set aside: folder=%s file=%s", folder, name)
            _set_aside(folder / name)
        if behind:
            last = [base for base in plan.base_offsets if base not in behind][-1:]
            beside_log.remove(folder, [*last, *behind])
            file_ops.sync_folder(log.folder)
        if log.log_end_offset < max(recovery_point, sealed_offset):
            self._forget_synced(log, max(recovery_point, sealed_offset))
        self._raise_epoch(log, is_changed=is_changed)
        _log.debug(
            "log recovered: folder=%s log_end_offset=%d leader_epoch=%d",
            folder.name,
            log.log_end_offset,
            log.leader_epoch,
        )

    def _forget_synced(self, log: PartitionLog, synced_end: int) -> None:
        """Synced records are gone: what is appended at their offsets has to be synced anew.

        Until then a crash may tear it, and the next recovery would take that for damage.
        """
        _log.error(
            "synced records are gone: folder=%s synced=%d log_end_offset=%d:"
            " the disk has lost or damaged them",
            log.folder,
            synced_end,
            log.log_end_offset,
        )
        self._offsets.note(log, log.log_end_offset)
        self._offsets.write_forgotten()
        file_ops.write_file_atomic(
            str(Path(log.folder) / seal.FILE_NAME), seal.note_text(log.log_end_offset)
        )

    def _raise_epoch(self, log: PartitionLog, *, is_changed: bool) -> None:
        if log.log_end_offset <= log.log_start_offset:
            return
        epoch = self._epoch()
        if is_changed:  # another directory's epochs may be higher
            epoch = max(self._raised_epoch(), log.leader_epoch + 1)
        if epoch > log.leader_epoch:
            log.start_epoch(epoch)

    def _begin_anew(self, log: PartitionLog) -> None:
        """Go on where the log starts, with nothing: what stood there is lost.

        That is under `os`, or somebody has put files in place whose records were deleted. From an
        offset before the log start the next records would count as deleted.
        """
        folder = Path(log.folder)
        for base in offsets_of(file_ops.list_folder(str(folder)), LOG):
            _set_aside(folder / file_name(base, LOG))
        recovery.create(log, self._offsets.log_start(_key(log)))


def _key(log: PartitionLog) -> tuple[str, int]:
    return log.topic, log.partition


def _set_aside(file: Path) -> None:
    file_ops.rename(str(file), str(file) + STRAY_SUFFIX)


def _sizes(log: PartitionLog, plan: FolderPlan) -> list[tuple[int, int]]:
    folder = Path(log.folder)
    return [(base, file_ops.size(str(folder / file_name(base, LOG)))) for base in plan.base_offsets]


def _read_snapshot(folder: Path, offset: int) -> bytes | None:
    try:
        return file_ops.read_file(str(folder / file_name(offset, SNAPSHOT)))
    except FileNotFoundError:
        return None


def _newest_snapshot(folder: Path, plan: FolderPlan, offset_max: int) -> tuple[int, bytes]:
    """The newest producers' state that the log surely reaches; (0, b"") when there is none."""
    for offset in reversed(plan.snapshot_offsets):
        content = _read_snapshot(folder, offset) if offset <= offset_max else None
        if content is not None:
            return offset, content
    return 0, b""
