"""Opens one log that has a folder: attaches it after a clean stop, or else recovers it.

    the stop was clean, the folder has the segments that it left   attached
      ... but transactions have ended above the high watermark     read from a snapshot below it on
      ... but snapshot, epochs or an index are lost or damaged     read from the recovery point on
      ... other segments: files were restored, removed or cut      read from the first byte on
    the stop was not clean                                         read from the recovery point on

Segments that a user has put in place are used as they are: checkpoints and snapshots belong to
other files, so the whole log is read, gaps between its batches are allowed as after a compaction,
and later appends have a leader epoch that no earlier run used.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from broker._native.kernel import file_ops
from broker._native.log import recovery, seal
from broker._native.log.partition_log import PartitionLog
from broker.model import limits
from broker.model.settings import LONG_MAX
from broker.segments import text_files
from broker.segments.names import DAMAGE, DIGEST, LOG, SNAPSHOT, file_name, offsets_of
from broker.storage.checkpoints import checkpoint, clean_segments
from broker.storage.checkpoints.clean_segments import Digests
from broker.storage.checkpoints.offset_checkpoints import OffsetCheckpoints
from broker.storage.files import damages, digests, sidecar
from broker.storage.files.deletion import STRAY_SUFFIX
from broker.storage.files.folder_plan import FolderPlan, plan_folder
from broker.storage.files.side_files import SideFiles
from broker.storage.recovery.epochs import Epochs

_log = logging.getLogger(__name__)


class Opening:
    """Opens the logs of one start, each in any thread."""

    def __init__(  # noqa: PLR0913 (what a start knows)
        self,
        offsets: OffsetCheckpoints,
        side_files: SideFiles,
        clean: Digests | None,
        epochs: Epochs,
        *,
        is_clean: bool,
        may_be_copies: bool,
        report: Callable[[], None],
    ) -> None:
        """Set whether the stop was clean, and the digests of the segments that it has left.

        `may_be_copies`: a log may be a copy of another broker's, or may have been one, so that what
        the leader's compaction has removed is missing after the recovery point, too. `report` is
        called for each log that has lost durable records, in the thread that opens it.
        """
        self._offsets = offsets
        self._side_files = side_files
        self._clean = clean
        self._epochs = epochs
        self._is_clean = is_clean
        self._may_be_copies = may_be_copies
        self._report = report

    def load(self, log: PartitionLog, names: list[str]) -> bool:
        """Open a log whose folder has these files.

        Returns whether all names in the folder are known to be synced. Raises StorageError.
        """
        is_synced = self._open(log, names)
        if self._may_be_copies:
            _forget_lost_epochs(log)
        known = self._offsets.high_watermark(_key(log)) or 0
        if known > log.log_end_offset:
            _log.error(
                "replicated records are lost: folder=%s high_watermark=%d log_end_offset=%d",
                log.folder,
                known,
                log.log_end_offset,
            )
            self._report()
        return is_synced

    def _open(self, log: PartitionLog, names: list[str]) -> bool:
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
            damages.restore(log, plan.damaged_offsets)
            return True
        is_changed = self._is_clean and not self._is_as_left(log, _sizes(log, plan))
        self._recover(log, plan, is_changed=is_changed)
        found = damages.save(log, plan.base_offsets)
        if set(found) - set(plan.damaged_offsets):
            self._report()
        damages.restore(log, [base for base in plan.damaged_offsets if base not in found])
        if log.log_end_offset < self._offsets.log_start(key):
            self._begin_anew(log)
            return False
        if log.segment_entries[-1][0] > plan.base_offsets[-1]:
            return False  # a new segment was begun after a damaged one
        # If a segment has synced records, its name is synced, too.
        return not is_changed and plan.base_offsets[-1] < self._offsets.recovery_point(key)

    def _attach(self, log: PartitionLog, plan: FolderPlan) -> bool:
        """Attach the log if its folder has exactly what a clean stop has left."""
        folder, bases = Path(log.folder), plan.base_offsets
        log_end = self._offsets.recovery_point((log.topic, log.partition))
        if not self._is_clean or log_end < bases[-1]:
            return False
        # A log that was never written to has no epochs, no producers and no files for them.
        snapshot = _read_snapshot(folder, log_end) if log_end else b""
        epochs = text_files.read_leader_epochs(folder) if log_end else [(0, 0)]
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
        watermark = self._offsets.high_watermark(_key(log))
        if watermark is not None and watermark < log_end and recovery.has_marker(log, watermark):
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
        """Read the log from its recovery point on, or all of it, and truncate it at its end."""
        folder = Path(log.folder)
        if is_changed and self._clean is not None:
            _log.warning(
                "segments changed since the clean stop, the whole log is read:"
                " folder=%s segments=%d",
                folder,
                len(plan.base_offsets),
            )
        recovery_point = 0 if is_changed else self._offsets.recovery_point(_key(log))
        sealed_offset = seal.sealed_offset(log.folder)
        aborted_before = digests.of_aborted(folder, plan.aborted_offsets)

        def read(bases: list[int], snapshot_max: int) -> tuple[int, list[int]]:
            known = self._offsets.high_watermark(_key(log)) if self._may_be_copies else None
            snapshot_offset, snapshot = _newest_snapshot(folder, plan, snapshot_max)
            if known is not None and known < snapshot_offset:
                snapshot_offset, snapshot = self._earlier_snapshot(log, plan, known)
            if snapshot_offset > snapshot_max:
                snapshot_offset, snapshot = 0, b""
            return snapshot_offset, recovery.recover(
                log,
                bases,
                log_start_offset=self._log_start(log, plan),
                recovery_point=recovery_point,
                epochs=[] if is_changed else text_files.read_leader_epochs(folder) or [],
                snapshot=snapshot,
                snapshot_offset=snapshot_offset,
                # Files that a user has put in place were not torn by a crash, except for the last
                # segment, which may have been copied while it was written to.
                synced_end=plan.base_offsets[-1] if is_changed else sealed_offset,
                has_gaps=is_changed,
                is_copy=self._may_be_copies,
                high_watermark=(known or 0) if self._may_be_copies else LONG_MAX,
            )

        snapshot_offset, after_end = read(plan.base_offsets, recovery_point)
        if log.log_end_offset < snapshot_offset:
            # The snapshot is of batches that are lost. What is left is read for its producers.
            bases = [base for base, _, _ in log.segment_entries]
            recovery.detach(log)
            read(bases, log.log_end_offset)
        aborted = digests.of_aborted(folder, plan.aborted_offsets)
        # A .txnindex that recovery has rebuilt differs from its digest.
        remade = [base for base in aborted_before if aborted.get(base) != aborted_before[base]]
        sidecar.remove(folder, remade, [DIGEST])
        for base in after_end:
            name = file_name(base, LOG)
            _log.warning("segment after the log's end renamed: folder=%s file=%s", folder, name)
            _set_aside(folder / name)
        if after_end:
            last = [base for base in plan.base_offsets if base not in after_end][-1:]
            sidecar.remove(folder, [*last, *after_end])
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

    @staticmethod
    def _earlier_snapshot(
        log: PartitionLog, plan: FolderPlan, high_watermark: int
    ) -> tuple[int, bytes]:
        """Return the producers before the high watermark, to find what has ended above it.

        Without a snapshot there, that is the whole log; if it is long, the oldest snapshot is used:
        a transaction that has ended between the two counts as decided.
        """
        folder = Path(log.folder)
        found = _newest_snapshot(folder, plan, high_watermark)
        size = sum(size for _, size in _sizes(log, plan))
        if found[1] or size <= limits.RECOVERY_OF_ENDED_BYTES_MAX:
            return found
        return _newest_snapshot(folder, plan, plan.snapshot_offsets[0])

    def _forget_synced(self, log: PartitionLog, synced_end: int) -> None:
        """Lower the recovery point and the sealed offset to the log's end: synced records are lost.

        Later appends at those offsets are not synced at first: a crash may tear them, and the next
        recovery must not take that for damage. Snapshots above the end are of other batches than
        those that are appended next.
        """
        _log.error(
            "synced records are lost: folder=%s synced=%d log_end_offset=%d:"
            " the disk has lost or damaged them",
            log.folder,
            synced_end,
            log.log_end_offset,
        )
        self._report()
        for offset in offsets_of(file_ops.list_folder(log.folder), SNAPSHOT):
            if offset > log.log_end_offset:
                file_ops.remove(str(Path(log.folder) / file_name(offset, SNAPSHOT)))
        self._offsets.note(log, log.log_end_offset)
        self._offsets.write_forgotten()
        file_ops.write_file_atomic(
            str(Path(log.folder) / seal.FILE_NAME), seal.note_text(log.log_end_offset)
        )

    def _raise_epoch(self, log: PartitionLog, *, is_changed: bool) -> None:
        if log.log_end_offset <= log.log_start_offset:
            return
        epoch = self._epochs.current
        if is_changed:  # another directory's epochs may be higher
            epoch = self._epochs.raised(log.leader_epoch)
        if epoch > log.leader_epoch:
            log.start_epoch(epoch)

    def _begin_anew(self, log: PartitionLog) -> None:
        """Create an empty log at the log start offset: the recovered log ends before it.

        That happens when unsynced records are lost under `os`, or when a user has restored files of
        deleted records. Records appended below the log start offset would count as deleted.
        """
        folder = Path(log.folder)
        for base in offsets_of(file_ops.list_folder(str(folder)), LOG):
            _set_aside(folder / file_name(base, LOG))
        recovery.create(log, self._offsets.log_start(_key(log)))


def _forget_lost_epochs(log: PartitionLog) -> None:
    """Remove the epochs that begin above a log's end from their file.

    Batches of older epochs may be copied there next; the next start must not read them as later.
    """
    file = Path(log.folder) / text_files.LEADER_EPOCHS
    epochs = text_files.read_leader_epochs(Path(log.folder)) or []
    if any(start > log.log_end_offset for _, start in epochs):
        file_ops.write_file_atomic(str(file), checkpoint.leader_epochs(log.epoch_entries).encode())


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
    """Return the newest producers' snapshot below a recovery point; (0, b"") without one."""
    for offset in reversed(plan.snapshot_offsets):
        content = _read_snapshot(folder, offset) if offset <= offset_max else None
        if content is not None:
            return offset, content
    return 0, b""
