"""Opens and closes partitions: creates, recovers, checkpoints and renames their files.

A start after a clean stop only checks that each segment's index matches the segment's end: the
checkpoints have the end of each log, if its segments are those that the stop has left
(`opening.py`). After an unclean stop each log is read from its recovery point on and truncated at
the first invalid batch (`_native.log.recovery`). All later batches have a leader epoch that no
earlier run has used, so that bytes that reappear after a lost truncation are never taken for valid.
That epoch is the number of unclean starts of this directory, made durable in the metadata store
with one write for all partitions before the first log is opened. A clean start that finds changed
files counts as unclean from the first such log on.

All partitions of a start are announced first and then loaded, one by one and in several threads,
while the broker already serves those that are ready. A thread has exclusive access to the log it
loads: `is_loading` refuses all other requests until the loop ends the loading.

A folder belongs to the topic whose id is in its `partition.metadata`. A folder that belongs to
another topic, or to none in the metadata store, is renamed to a name with `-stray`, never deleted.
"""

import logging
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import DiskState, Turn
from broker.model.errors import StorageError
from broker.model.limits import PRODUCER_IDS_PER_PARTITION_MAX
from broker.model.topic_config import TopicConfig
from broker.segments import text_files
from broker.segments.names import SWAP
from broker.storage.checkpoints import checkpoint, clean_segments
from broker.storage.checkpoints.offset_checkpoints import OffsetCheckpoints, Points
from broker.storage.directories import Directories
from broker.storage.files import deletion
from broker.storage.files.side_files import SideFiles
from broker.storage.files.swap import finish_swaps
from broker.storage.move_names import FUTURE_SUFFIX, MOVED_SUFFIX, partition_name
from broker.storage.recovery.closing import Closed, close_logs, sync_indexes, write_epochs
from broker.storage.recovery.epochs import Epochs
from broker.storage.recovery.log_settings import log_settings, throttled
from broker.storage.recovery.opening import Opening
from broker.storage.recovery.syncing import (
    Failed,
    is_one_sync_cheaper,
    sync_directories,
    sync_filesystems,
)

if TYPE_CHECKING:
    from broker.storage.files.folder_copy import FolderCopy, OnLoop
    from broker.storage.recovery.shared_folders import SharedFolders
    from broker.storage.recovery.truncation import Truncation

_log = logging.getLogger(__name__)


def _ignore() -> None:
    pass


def _none(_topic: str, _partition: int) -> bytes | None:
    return None


def _all(_topic_id: bytes, _partition: int) -> bool:
    return True


# Returns PartitionLog.protocol_flags, which protocols define and read.
LogFlags: TypeAlias = Callable[[TopicConfig], int]
# Returns the id of the topic with that name, None if it has no partition of that number.
TopicIdOf: TypeAlias = Callable[[str, int], bytes | None]


class Partitions:
    """The partitions of the data directory, whose folders may be in several directories.

    Attributes:
        other_disks: how full the directories are that are not the data directory.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (what a start needs)
        self,
        path: Path,
        epochs: Epochs,
        turn: Turn,
        producer_expiration_ms: int,
        log_flags: LogFlags = lambda _: 0,
        shared: "SharedFolders | None" = None,
        when_lost: Callable[[], None] = _ignore,
        directories: Directories | None = None,
    ) -> None:
        """Read the checkpoints; after an unclean stop, make the next leader epoch durable.

        Args:
            path: the data directory.
            epochs: the leader epochs of this start.
            turn: of all logs.
            producer_expiration_ms: after which an idle producer is forgotten.
            log_flags: returns what protocols keep in a log.
            shared: the folders that this broker has claimed of those it shares with others.
            when_lost: called for each log in which records that were durable are gone or damaged,
                in the thread that has found it.
            directories: those of the folders, if not all are in `path`.
        """
        self._directories = Directories(path) if directories is None else directories
        self.other_disks = {each: DiskState() for each in self._directories if each != path}
        self._when_lost = when_lost
        self._path = path
        self._shared = shared
        self._log_flags = log_flags
        self._turn = turn
        self._producer_expiration_ms = producer_expiration_ms
        self._offsets = OffsetCheckpoints(path) if shared is None else shared.offsets
        self._side_files = SideFiles()
        self._logs: dict[str, PartitionLog] = {}  # folder name → log
        # Loaded, but not settled yet.
        self._unsynced_names: set[PartitionLog] = set()  # names in a folder
        self._unsynced_folders: set[PartitionLog] = set()  # the name of a folder
        # In a shared directory each log has what the marker tells (shared_folders.py).
        self.is_clean = shared is None and checkpoint.take_clean_shutdown(path)
        # Digests of the segments of logs: as the last stop has left them, and when released since.
        self._left = clean_segments.read(path) if self.is_clean else None
        self._released: dict[tuple[str, int], str] = {}
        self._has_failed = False  # a log that was released is not whole on the disk
        # Released logs that had failed, with the ids of their topics. The kernel reports a failed
        # sync once: whoever opened such a log again would take for durable what is not.
        self._failed: dict[tuple[str, int], bytes] = {}
        clean = None if self._left is None else ChainMap(self._released, dict(self._left))
        self._epochs = epochs
        epochs.begin(is_clean=self.is_clean)
        self._opening = Opening(
            self._offsets,
            self._side_files,
            clean,
            epochs,
            is_clean=self.is_clean,
            may_be_copies=epochs.are_elected and shared is None,
            report=when_lost,
        )
        self._made_truncation: Truncation | None = None
        if not self.is_clean:
            self._directories.settle()  # the last run may have created folders

    # ---- open --------------------------------------------------------------------------------

    def claim(self, topic: str, topic_id: bytes, numbers: Iterable[int]) -> list[int]:
        """Return those partitions whose folders this broker may open: no other process has them."""
        if self._shared is None:
            return list(numbers)
        return [number for number in numbers if self._shared.claim(topic, topic_id, number)]

    def free(self, topic: str, number: int) -> None:
        """Let other processes open a folder: nothing of this process writes to it any more.

        The folder of a log that has failed stays closed until this process ends.
        """
        if self._shared is not None and (topic, number) not in self._failed:
            self._shared.free(topic, number)

    def announce_topic(
        self, topic: str, topic_id: bytes, numbers: Iterable[int], config: TopicConfig
    ) -> list[PartitionLog]:
        """Return partitions of an existing topic, to be loaded; no file is read."""
        logs = [self._log_for(topic, topic_id, number, config) for number in numbers]
        for log in logs:
            log.begin_loading()
            self._logs[_name(log)] = log
        return logs

    def load(self, log: PartitionLog) -> str | None:
        """Open an announced partition, in any thread; return None, or why its files are unusable.

        `settle` is next; then the loop ends the log's loading, or takes it offline first.
        """
        if self._failed.get((log.topic, log.partition)) == log.topic_id:
            return "it has failed before in this run: restart the broker"
        missing = self._directories.missing
        if missing and (directory := Path(log.folder).parent) in missing:
            return f"{directory} is missing, which may have it: {missing[directory]}"
        try:
            opening = self._opening_of(log)
            names = self._claim(log)
            if names is None:
                self._forget_older([log])
                self._make(log)
                self._unsynced_names.add(log)
                self._unsynced_folders.add(log)
            elif not opening.load(log, names):
                self._unsynced_names.add(log)
        except (StorageError, FileNotFoundError) as error:
            return f"{error}; its files were left unchanged: fix this and restart the broker"
        return None

    def settle(self, logs: Iterable[PartitionLog]) -> dict[PartitionLog, str]:
        """Make the readable part of loaded logs durable, with one sync if there are many.

        Runs in a thread. Returns the logs for which that failed, with the reason.
        """
        logs = list(logs)
        unsettled = [
            log
            for log in logs
            if log in self._unsynced_names or (log.is_group_commit and log.needs_sync)
        ]
        is_synced = is_one_sync_cheaper(len(unsettled))
        failed: Failed = sync_filesystems(unsettled) if is_synced else {}
        for log in unsettled:
            if log in failed:
                continue
            try:
                self._settle(log, is_synced=is_synced)
            except (StorageError, FileNotFoundError) as error:
                failed[log] = str(error)
        made = [log for log in unsettled if log in self._unsynced_folders]
        if not is_synced:
            failed |= sync_directories(made)
        self._unsynced_folders.difference_update(made)
        for log in logs:
            if log not in failed:
                self._restore_watermark(log)
        return failed

    def _restore_watermark(self, log: PartitionLog) -> None:
        """Let a replica be read as far as it was known to be replicated.

        In a cluster that is nothing, until the log is led or followed again, where no checkpoint
        has it; a log without other replicas is then readable up to its end.
        """
        known = self._offsets.high_watermark((log.topic, log.partition))
        if known is not None or self._epochs.are_elected:
            known = min(known or 0, log.log_end_offset)
            log.restore_watermark(max(known, log.log_start_offset))
        if self._epochs.are_elected:
            log.await_role()

    def _settle(self, log: PartitionLog, *, is_synced: bool) -> None:
        if log.is_group_commit and log.needs_sync:
            recovery.settle(log, is_synced=is_synced)
        if log in self._unsynced_names:
            self._unsynced_names.discard(log)
            if not is_synced:
                file_ops.sync_folder(log.folder)

    def open_topic(
        self, topic: str, topic_id: bytes, numbers: Iterable[int], config: TopicConfig
    ) -> list[PartitionLog]:
        """Create or open partitions of a topic; in the I/O thread.

        Raises StorageError when that fails; partitions created before are removed again.
        """
        numbers = list(numbers)
        unknown = [name for n in numbers if not self._directories.knows(name := f"{topic}-{n}")]
        logs = [self._log_for(topic, topic_id, number, config, is_new=True) for number in numbers]
        made: list[PartitionLog] = []
        try:
            openings = {log: self._opening_of(log) for log in logs}
            names = {log: self._claim(log) for log in logs}
            made = [log for log, there in names.items() if there is None]
            # Before the folders: a start that finds a folder uses the checkpoints of its name.
            self._forget_older(made)
            for log, there in names.items():
                if there is None:
                    self._make(log)
                else:
                    openings[log].load(log, there)
            for log in logs:
                self._settle(log, is_synced=False)
                self._restore_watermark(log)
            self._sync_names(logs)
        except (StorageError, FileNotFoundError) as error:
            self._directories.check(Path(log.folder) for log in logs)
            for log in made:
                self._remove(log)
            for name in unknown:
                self._directories.forget(name)
            if isinstance(error, FileNotFoundError):  # of a directory
                raise StorageError(str(error)) from error
            raise
        for log in logs:
            self._logs[_name(log)] = log
        return logs

    def _opening_of(self, log: PartitionLog) -> Opening:
        """Return what opens a log; in a shared directory, as its last broker has left it."""
        if self._shared is None:
            return self._opening
        left = self._shared.take_over(log)
        clean = None if left is None else {(log.topic, log.partition): left.digest}
        return Opening(
            self._offsets,
            self._side_files,
            clean,
            self._epochs,
            is_clean=left is not None,
            may_be_copies=False,
            report=self._when_lost,
        )

    def _make(self, log: PartitionLog) -> None:
        self._directories.check_mounted(Path(log.folder).parent)
        file_ops.make_folder(log.folder)
        recovery.create(log)
        # Not synced: a start that finds none writes it again.
        file_ops.write_file(
            str(Path(log.folder) / text_files.PARTITION_METADATA),
            checkpoint.partition_metadata(log.topic_id).encode(),
        )

    def _forget_older(self, logs: Iterable[PartitionLog]) -> None:
        """Remove older logs of these names from the checkpoints."""
        stale = [log for log in logs if self._offsets.forget((log.topic, log.partition))]
        if stale:
            self._offsets.write_forgotten()

    def _sync_names(self, logs: list[PartitionLog]) -> None:
        """Sync the names of files and folders, before the first acknowledgement."""
        for log in logs:
            file_ops.sync_folder(log.folder)
        for directory in {Path(log.folder).parent for log in logs}:
            file_ops.sync_folder(str(directory))

    def _log_for(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        config: TopicConfig,
        *,
        is_new: bool = False,
    ) -> PartitionLog:
        folder = self._directories.folder(f"{topic}-{partition}", topic_id, is_new=is_new)
        log = PartitionLog(
            self._turn,
            topic,
            topic_id,
            partition,
            str(folder),
            producer_ids_max=PRODUCER_IDS_PER_PARTITION_MAX,
            producer_expiration_ms=self._producer_expiration_ms,
            **log_settings(topic, config, self._log_flags(config)),
        )
        log.disk = self.other_disks.get(folder.parent, self._turn.disk)
        log.throttle(**throttled(partition, config))
        return log

    def configure(self, log: PartitionLog, config: TopicConfig) -> None:
        """Apply its topic's configuration to a log, from the next append on."""
        log.configure(**log_settings(log.topic, config, self._log_flags(config)))
        log.throttle(**throttled(log.partition, config))

    def _claim(self, log: PartitionLog) -> list[str] | None:
        """Return the names in a partition's folder; None if this topic has no such folder."""
        folder = Path(log.folder)
        try:
            names: list[str] = file_ops.list_folder(log.folder)
        except FileNotFoundError:
            return None
        owner = text_files.read_partition_metadata(folder)
        if owner is None:  # a crash after the folder and before its metadata
            checkpoint.write_partition_metadata(folder, log.topic_id)
            names = file_ops.list_folder(log.folder)  # its leftover temporary file is gone now
        elif owner != log.topic_id:
            self._set_aside(folder)
            return None
        if any(name.endswith(SWAP) for name in names):
            finish_swaps(folder)
            return file_ops.list_folder(log.folder)
        return names

    def _set_aside(self, folder: Path) -> None:
        epoch = self._epochs.current
        aside = deletion.renamed_folder(folder, f"{epoch}{deletion.STRAY_SUFFIX}")
        number = 0
        while aside.exists():
            number += 1
            aside = deletion.renamed_folder(folder, f"{epoch}.{number}{deletion.STRAY_SUFFIX}")
        _log.warning("folder of no known topic renamed: folder=%s as=%s", folder, aside.name)
        file_ops.rename(str(folder), str(aside))
        file_ops.sync_folder(str(folder.parent))

    def rename_strays(
        self, topic_id_of: TopicIdOf = _none, keeps: Callable[[bytes, int], bool] = _all
    ) -> list[Path]:
        """Rename the folders of no known topic; return those to be removed.

        These are of deletes that did not complete, and of partitions whose replicas were moved to
        other brokers while this one did not run. Their names are durable: a partition that comes
        back after a power cut finds its whole folder or none, and not what was left to remove.

        Args:
            topic_id_of: returns the id of the topic that has such a partition, which another broker
                may lead now.
            keeps: returns whether this broker keeps the files of a partition, by its topic's id.
        """
        doomed: list[Path] = []
        if self._shared is not None:
            return doomed  # a folder may be of a topic that another broker is creating
        for directory, name in self._names():
            log = self._logs.get(name)
            if log is not None and log.folder == f"{directory}/{name}":
                continue
            folder = directory / name
            if name.endswith(deletion.STRAY_SUFFIX) or not _is_folder(folder):
                continue
            if name.endswith(deletion.DELETE_SUFFIX):
                doomed.append(folder)
                continue
            if name.endswith((FUTURE_SUFFIX, MOVED_SUFFIX)):
                doomed += self._left_by_move(folder, topic_id_of, keeps)
                continue
            topic, _, number = name.rpartition("-")
            topic_id = topic_id_of(topic, int(number)) if number.isdigit() else None
            if number.isdigit() and self._is_stray(folder, topic_id):
                self._set_aside(folder)
            elif topic_id is not None and not keeps(topic_id, int(number)):
                doomed.append(self._put_away(folder, topic_id))
        for directory in {each.parent for each in doomed}:
            file_ops.sync_folder(str(directory))
        return doomed

    def _names(self) -> Iterator[tuple[Path, str]]:
        """Yield everything in the directories."""
        for directory in list(self._directories):
            for name in self._directories.names(directory):
                yield directory, name

    def _left_by_move(
        self, folder: Path, topic_id_of: TopicIdOf, keeps: Callable[[bytes, int], bool]
    ) -> list[Path]:
        """Return a folder that a move has left, to be removed; none if it may be the only copy.

        It may be while a directory is missing, which may have the partition's folder, or the one
        that tells that this copy is whole. After that it is set aside.
        """
        suffix = FUTURE_SUFFIX if folder.name.endswith(FUTURE_SUFFIX) else MOVED_SUFFIX
        name = partition_name(folder.name, suffix)
        if name is None:
            return [folder] if suffix == FUTURE_SUFFIX else []
        topic, _, number = name.rpartition("-")
        topic_id = topic_id_of(topic, int(number))
        is_wanted = topic_id is not None and keeps(topic_id, int(number))
        if not is_wanted or self._directories.has(name):
            return [folder]
        if not self._directories.missing:
            self._set_aside(folder)
        return []

    def _put_away(self, folder: Path, topic_id: bytes) -> Path:
        """Rename a folder to be removed."""
        doomed = deletion.deleted_folder(folder, topic_id)
        _log.info("folder of a partition that was moved is removed: folder=%s", folder)
        if doomed.exists():  # of an earlier move
            file_ops.sync_folder(str(folder.parent))
            deletion.remove_folder(doomed)
        file_ops.rename(str(folder), str(doomed))
        return doomed

    def _is_stray(self, folder: Path, topic_id: bytes | None) -> bool:
        """Return whether a folder belongs to another topic than the one that has its name now."""
        if topic_id is None:
            return True
        try:
            owner = text_files.read_partition_metadata(folder)
        except StorageError as error:
            _log.warning("folder not checked: folder=%s error=%s", folder, error)
            return False
        return owner is not None and owner != topic_id

    # ---- cut ---------------------------------------------------------------------------------

    def read_before_cut(self, log: PartitionLog, offset: int) -> Iterator[None]:
        """Read in steps what `truncate` needs of the segments before the cut; as `truncate`."""
        return self._truncation.read_before(log, offset)

    def truncate(self, log: PartitionLog, offset: int) -> None:
        """Remove what a replica has from an offset on; in the I/O thread, while it is held.

        Raises DiskFull when nothing has changed, or StorageError: take the log offline.
        """
        self._truncation.truncate(log, offset)

    def begin_anew(self, log: PartitionLog, offset: int) -> None:
        """Empty a replica that begins at an offset from then on; as `truncate`."""
        self._truncation.begin_anew(log, offset)

    @property
    def _truncation(self) -> "Truncation":
        if self._made_truncation is None:  # only replicas are cut: others do without its modules
            from broker.storage.recovery.truncation import Truncation  # noqa: PLC0415

            self._made_truncation = Truncation(self._offsets, self._side_files)
        return self._made_truncation

    # ---- release -----------------------------------------------------------------------------

    def release(self, log: PartitionLog) -> None:
        """Close a log that another broker will lead; in the I/O thread.

        Nobody uses it any more, and it is not being synced. Its files stay, for the next time.
        """
        [closed] = close_logs([log], self._side_files)
        key = (log.topic, log.partition)
        if self._shared is not None:
            self._leave([closed])
        elif closed.end_offset >= 0:
            self._offsets.note(log, closed.end_offset)
            self._note_watermark(log)
            self._released[key] = self._digest(log)
        else:
            self._has_failed = True
            self._released.pop(key, None)
        if closed.end_offset < 0:
            self._failed[key] = log.topic_id
        self._side_files.forget(log)
        self._logs.pop(_name(log), None)

    def abandon(self, log: PartitionLog) -> None:
        """Note that a log that has failed is not led any more; it stays as it is.

        It is not opened again in this run, as it would not be if this broker still led it.
        """
        self._failed[log.topic, log.partition] = log.topic_id

    def _leave(self, closed: list[Closed]) -> None:
        """Write how logs of a shared directory were left, except those that are offline."""
        assert self._shared is not None
        whole = [each for each in closed if each.end_offset >= 0]
        for log, end_offset in whole:
            self._offsets.note(log, end_offset)
        try:
            self._shared.closed(
                [(log, end_offset, self._digest(log)) for log, end_offset in whole],
                is_one_sync=is_one_sync_cheaper(len(whole)),
            )
        except (StorageError, FileNotFoundError) as error:
            _log.warning("logs are recovered when they are opened next: error=%s", error)

    def _digest(self, log: PartitionLog) -> str:
        sizes = [(base, size) for base, size, _ in log.segment_entries]
        return clean_segments.digest(sizes, self._offsets.log_start((log.topic, log.partition)))

    # ---- move --------------------------------------------------------------------------------

    def switch(self, copy: "FolderCopy", on_loop: "OnLoop") -> bool:
        """Let a log use its copy in another directory, in the I/O thread; as `FolderCopy.switch`.

        The old folder is at `copy.left` then, to be removed.
        """
        log = copy.log
        self._side_files.forget(log)  # they are written again

        def used() -> None:
            log.disk = self.other_disks.get(copy.directory, self._turn.disk)
            if not log.is_deleted:
                self._directories.moved(_name(log), copy.directory)

        return copy.switch(on_loop, used)

    # ---- delete ------------------------------------------------------------------------------

    def delete(self, log: PartitionLog) -> None:
        """Remove a deleted topic's partition. Readers that hold one of its files can continue."""
        log.retire()
        self._logs.pop(_name(log), None)
        self._side_files.forget(log)
        self.forget(log.topic, [log.partition])

    def forget(self, topic: str, numbers: Iterable[int]) -> None:
        """Forget partitions of a deleted topic: a later topic may have its name."""
        for number in numbers:
            self._directories.forget(f"{topic}-{number}")
            self._offsets.forget((topic, number))
            self._released.pop((topic, number), None)
            self._failed.pop((topic, number), None)

    def forget_moved(self, topic: str, number: int) -> None:
        """Forget a partition whose replicas other brokers have, unless its folder is still there.

        It is in a directory that has failed: if this broker gets a replica again, it is not made in
        another one. A start that found two of them would take neither.
        """
        if not self._directories.is_held(f"{topic}-{number}"):
            self.forget(topic, [number])

    def _remove(self, log: PartitionLog) -> None:
        folder = Path(log.folder)
        self._directories.forget(folder.name)
        doomed = deletion.deleted_folder(folder, log.topic_id)
        try:
            file_ops.rename(str(folder), str(doomed))
        except FileNotFoundError:
            return  # it was never created
        deletion.remove_folder(doomed)

    def forget_deleted(self) -> None:
        """Remove logs that were deleted from checkpoints that other brokers read."""
        if self._shared is not None:
            self._offsets.write_forgotten()

    # ---- checkpoint and close ----------------------------------------------------------------

    def recovery_point(self, log: PartitionLog) -> int:
        """Return the recovery point in the checkpoint file; only below it may a log have gaps."""
        return self._offsets.written_recovery_point((log.topic, log.partition))

    def plan_checkpoint(self) -> Points:
        """Return the points for `write_checkpoint`; called on the loop, cheap."""
        for log in list(self._logs.values()):
            # One that is offline may not have been read: what is known of it stays.
            if not (log.is_loading or log.is_offline):
                self._offsets.note(log, log.durable_end)
                self._note_watermark(log)
        return self._offsets.take()

    def _note_watermark(self, log: PartitionLog) -> None:
        known = log.high_watermark if log.is_replicated or log.awaits_role else None
        self._offsets.note_watermark((log.topic, log.partition), known)

    def prepare_checkpoint(self) -> Failed:
        """Make the epochs and indexes durable that recovery will no longer rebuild.

        Returns the logs where that failed, with the reason: they must go offline before the next
        step.
        """
        logs = [log for log in list(self._logs.values()) if log.is_in_service]
        failed = write_epochs(logs, self._side_files)
        return failed | sync_indexes(log for log in logs if log not in failed)

    def write_checkpoint(self, points: Points) -> None:
        """Write the recovery points taken before `prepare_checkpoint`.

        The recovery point of an offline log stays: what is on the disk of it is unknown.
        """
        offline = [
            (log.topic, log.partition) for log in list(self._logs.values()) if log.is_offline
        ]
        self._offsets.write(self._offsets.held_back(points, offline))

    def note_log_starts(self, starts: Iterable[tuple[PartitionLog, int]]) -> None:
        """Set the log starts for `write_log_starts`; called on the loop, cheap."""
        for log, offset in starts:
            if not (log.is_loading or log.is_deleted):
                self._offsets.note_start((log.topic, log.partition), offset)

    def write_log_starts(self) -> None:
        """Write the start of each log, so that deleted records stay deleted after any crash."""
        self._offsets.write_log_starts()

    def write_snapshot(self, log: PartitionLog, offset: int, content: bytes) -> None:
        """Write a producers' snapshot, and keep the two before it."""
        if not log.is_deleted:
            self._side_files.write_snapshot(log, offset, content)

    def close(self) -> None:
        """Close every log and write the marker of a clean stop.

        There is no marker if a log is offline, or was not recovered yet after an unclean stop.
        """
        logs = [log for log in self._logs.values() if not log.is_loading]
        if self._shared is not None:
            self._leave(close_logs(logs, self._side_files))
            self.write_checkpoint(self._offsets.take())
            self._shared.close()
            return
        is_recovered = len(logs) == len(self._logs) and not self._unopened()
        is_clean = (self.is_clean or is_recovered) and not self._has_failed
        for log, end_offset in close_logs(logs, self._side_files):
            if end_offset < 0:
                is_clean = False
            else:
                self._offsets.note(log, end_offset)
                self._note_watermark(log)
        self.write_checkpoint(self._offsets.take())
        if is_clean:
            self._write_clean_segments()
            checkpoint.write_clean_shutdown(self._path)

    def _unopened(self) -> bool:
        """Return whether there is a partition that this run has not opened, in a cluster."""
        released = {f"{topic}-{number}" for topic, number in self._released}
        return any(
            name not in self._logs
            and name not in released
            and name.rpartition("-")[2].isdigit()
            and (directory / name / text_files.PARTITION_METADATA).exists()
            for directory, name in self._names()
        )

    def _write_clean_segments(self) -> None:
        known = {**(self._left or {}), **self._released}
        left = {
            (topic, number): digest
            for (topic, number), digest in known.items()
            if self._directories.has(f"{topic}-{number}")  # released, or not opened
        }
        for log in self._logs.values():
            if not log.is_loading:
                left[log.topic, log.partition] = self._digest(log)
        named = clean_segments.without_empty(left)
        if named != self._left:
            clean_segments.write(self._path, named)


def _name(log: PartitionLog) -> str:
    """Return the name of its folder, which is another one only within a move."""
    return f"{log.topic}-{log.partition}"


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError as error:
        _log.warning("ignored, not accessible: path=%s error=%s", path, error)
        return False
