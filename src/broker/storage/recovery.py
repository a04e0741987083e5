"""Opening and closing partitions: which files a folder has, and what is done with them.

A start after a clean stop reads no segment: the checkpoints say where each log ends. After an
unclean one each log is read from its recovery point on and cut where it stops making sense
(`_native.log.recovery`); every batch written from then on carries a leader epoch that no earlier
life has used, so that what survived behind a cut is never taken for new. That epoch is the number
of unclean starts of this directory, made durable in the metadata store with one write for all
partitions before the first log is opened.

A folder belongs to a topic by the id in its `partition.metadata`. One that belongs to another, or
to none that the metadata store knows, is set aside under a name with `-stray`, never deleted.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from broker._native.kernel import file_ops
from broker._native.log import recovery
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.model.errors import StorageError
from broker.model.identifiers import id_to_text
from broker.model.limits import PRODUCER_IDS_PER_PARTITION_MAX
from broker.model.topic_config import TopicConfig
from broker.storage import checkpoint
from broker.storage.log_settings import log_settings
from broker.storage.metadata import MetaStore, Put

_LOG_SUFFIX = ".log"
_SNAPSHOT_SUFFIX = ".snapshot"
_DELETE_SUFFIX = "-delete"
_STRAY_SUFFIX = "-stray"
_OFFSET_DIGITS = 20

_log = logging.getLogger(__name__)


class Partitions:
    """The partitions of one data directory, opened and closed by one broker."""

    def __init__(
        self, path: Path, store: MetaStore, turn: Turn, node_id: int, producer_expiration_ms: int
    ) -> None:
        """Read the checkpoints; after an unclean stop, make the next leader epoch durable."""
        self._path = path
        self._turn = turn
        self._producer_expiration_ms = producer_expiration_ms
        self._recovery_points = checkpoint.read_offsets(path / checkpoint.RECOVERY_POINTS)
        self._log_starts = checkpoint.read_offsets(path / checkpoint.LOG_START_OFFSETS)
        self._logs: dict[str, PartitionLog] = {}
        self._epochs_written: dict[str, list[tuple[int, int]]] = {}  # by folder name
        self.is_clean = checkpoint.take_clean_shutdown(path)
        self._epoch = _epoch_of_this_start(store, node_id, is_clean=self.is_clean)

    # ---- open --------------------------------------------------------------------------------

    def open_topic(
        self, topic: str, topic_id: bytes, count: int, config: TopicConfig, first: int = 0
    ) -> list[PartitionLog]:
        """Open a topic's partitions, making the folders that are not there; in the I/O thread.

        A topic of `count` partitions that grows has all below `first` open already.

        A partition whose files cannot be read comes back offline: the rest of the topic works.
        Raises StorageError when a new folder cannot be made; those made before are removed again.
        """
        logs: list[PartitionLog] = []
        made: list[PartitionLog] = []
        unsynced: list[PartitionLog] = []
        try:
            for partition in range(first, count):
                folder = self._path / f"{topic}-{partition}"
                log = self._log_for(folder, topic, topic_id, partition, config)
                if not self._claim(folder, topic_id):
                    file_ops.make_folder(str(folder))
                    made.append(log)
                    self._make(log, folder)
                    unsynced.append(log)
                elif not self._try_to_load(log, folder, (topic, partition)):
                    unsynced.append(log)
                logs.append(log)
            self._sync_names(unsynced)
        except StorageError:
            for log in made:
                self._remove(log)
            raise
        for log in logs:
            self._logs[Path(log.folder).name] = log
        return logs

    def _make(self, log: PartitionLog, folder: Path) -> None:
        recovery.create(log)
        # Not worth a sync of its own: a start that finds none writes it again.
        (folder / checkpoint.PARTITION_METADATA).write_text(
            checkpoint.partition_metadata(log.topic_id), encoding="ascii"
        )

    def _sync_names(self, logs: list[PartitionLog]) -> None:
        """Before the first ack a file's name must be on the disk, and its folder's."""
        for log in logs:
            file_ops.sync_folder(log.folder)
        if logs:
            file_ops.sync_folder(str(self._path))

    def _log_for(
        self, folder: Path, topic: str, topic_id: bytes, partition: int, config: TopicConfig
    ) -> PartitionLog:
        return PartitionLog(
            self._turn,
            topic,
            topic_id,
            partition,
            str(folder),
            producer_ids_max=PRODUCER_IDS_PER_PARTITION_MAX,
            producer_expiration_ms=self._producer_expiration_ms,
            **log_settings(topic, config),
        )

    def _claim(self, folder: Path, topic_id: bytes) -> bool:
        """Whether the folder is there and this topic's; another topic's is set aside."""
        try:
            file_ops.list_folder(str(folder))
        except FileNotFoundError:
            return False
        owner = checkpoint.read_partition_metadata(folder)
        if owner is None:  # a crash came between the folder and its metadata
            checkpoint.write_partition_metadata(folder, topic_id)
        elif owner != topic_id:
            self._set_aside(folder)
            return False
        return True

    def _set_aside(self, folder: Path) -> None:
        aside = folder.with_name(f"{folder.name}.{self._epoch}{_STRAY_SUFFIX}")
        number = 0
        while aside.exists():
            number += 1
            aside = folder.with_name(f"{folder.name}.{self._epoch}.{number}{_STRAY_SUFFIX}")
        _log.warning("folder of no known topic set aside: folder=%s as=%s", folder, aside.name)
        file_ops.rename(str(folder), str(aside))
        file_ops.sync_folder(str(self._path))

    def _try_to_load(self, log: PartitionLog, folder: Path, key: tuple[str, int]) -> bool:
        try:
            return self._load(log, folder, key)
        except StorageError as error:
            log.take_offline(str(error))
            return True

    def _load(self, log: PartitionLog, folder: Path, key: tuple[str, int]) -> bool:
        """Open a log that has a folder. False: which names of its files are synced is not known."""
        names = file_ops.list_folder(str(folder))
        bases = sorted(int(name[:-4]) for name in names if _is_offset_file(name, _LOG_SUFFIX))
        if not bases:
            recovery.create(log)
            return False
        if self._attach(log, folder, bases, key):
            return True
        self._recover(log, folder, bases, key)
        return False

    def _attach(
        self, log: PartitionLog, folder: Path, bases: list[int], key: tuple[str, int]
    ) -> bool:
        """Believe what a clean stop has written, if all of it is there."""
        log_end = self._recovery_points.get(key, 0)
        if not self.is_clean or log_end < bases[-1]:
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
                log_start_offset=max(self._log_starts.get(key, 0), bases[0]),
                log_end_offset=log_end,
                epochs=epochs,
                snapshot=snapshot,
            )
        ):
            return False
        self._epochs_written[folder.name] = log.epoch_entries
        return True

    def _recover(
        self, log: PartitionLog, folder: Path, bases: list[int], key: tuple[str, int]
    ) -> None:
        """Read the log from its recovery point on and cut it where it ends."""
        recovery_point = self._recovery_points.get(key, 0)
        epochs = checkpoint.read_leader_epochs(folder)
        # Without its epochs a log is read from its beginning: an epoch below that of an older batch
        # would make the next recovery cut there.
        read_from = recovery_point if epochs else 0
        snapshot_offset, snapshot = _newest_snapshot(folder, read_from)
        behind = recovery.recover(
            log,
            bases,
            log_start_offset=max(self._log_starts.get(key, 0), bases[0]),
            recovery_point=read_from,
            epochs=epochs or [(0, 0)],
            snapshot=snapshot,
            snapshot_offset=snapshot_offset,
        )
        for base in behind:
            name = f"{base:0{_OFFSET_DIGITS}d}{_LOG_SUFFIX}"
            _log.warning("segment behind the log's end set aside: folder=%s file=%s", folder, name)
            file_ops.rename(str(folder / name), str(folder / (name + _STRAY_SUFFIX)))
        if log.log_end_offset < recovery_point:
            _log.error(
                "synced records are gone: folder=%s recovery_point=%d log_end_offset=%d:"
                " the disk has lost or damaged them",
                folder,
                recovery_point,
                log.log_end_offset,
            )
        if log.log_end_offset > log.log_start_offset and self._epoch > log.leader_epoch:
            log.start_epoch(self._epoch)
        _log.info(
            "log recovered: folder=%s log_end_offset=%d leader_epoch=%d",
            folder.name,
            log.log_end_offset,
            log.leader_epoch,
        )

    def set_strays_aside(self) -> None:
        """Move away the folders that no topic has opened; finish deletes that a crash cut short."""
        for name in file_ops.list_folder(str(self._path)):
            folder = self._path / name
            if not folder.is_dir() or name in self._logs or name.endswith(_STRAY_SUFFIX):
                continue
            if name.endswith(_DELETE_SUFFIX):
                _remove_folder(folder)
            elif name.rpartition("-")[2].isdigit():
                self._set_aside(folder)

    # ---- delete ------------------------------------------------------------------------------

    def delete(self, log: PartitionLog) -> None:
        """Let go of a deleted topic's partition. Readers that still hold a file read on."""
        log.retire()
        self._logs.pop(Path(log.folder).name, None)
        self._recovery_points.pop((log.topic, log.partition), None)
        self._log_starts.pop((log.topic, log.partition), None)
        self._epochs_written.pop(Path(log.folder).name, None)
        self._remove(log)

    def _remove(self, log: PartitionLog) -> None:
        folder = Path(log.folder)
        doomed = folder.with_name(f"{folder.name}.{id_to_text(log.topic_id)}{_DELETE_SUFFIX}")
        file_ops.rename(str(folder), str(doomed))
        _remove_folder(doomed)

    # ---- checkpoint and close ----------------------------------------------------------------

    def plan_checkpoint(self) -> Mapping[tuple[str, int], int]:
        """What `write_checkpoint` shall write: taken on the loop, cheap."""
        for log in list(self._logs.values()):
            self._note(log, log.durable_end)
        return dict(self._recovery_points)

    def write_checkpoint(self, recovery_points: Mapping[tuple[str, int], int]) -> None:
        """Write how far recovery need not look, once epochs and indexes up to there are durable."""
        for name, log in list(self._logs.items()):
            self._write_epochs(name, log)
            if not log.is_deleted:
                log.sync_indexes()
        checkpoint.write_offsets(self._path / checkpoint.RECOVERY_POINTS, recovery_points)
        self.write_log_starts()

    def note_log_starts(self) -> None:
        """What `write_log_starts` shall write: on the loop, cheap."""
        for log in self._logs.values():
            self._note_start(log)

    def write_log_starts(self) -> None:
        """Write where each log begins: what was deleted stays so after any crash."""
        checkpoint.write_offsets(self._path / checkpoint.LOG_START_OFFSETS, dict(self._log_starts))

    def write_snapshot(self, log: PartitionLog, offset: int, content: bytes) -> None:
        """Write a producers' snapshot; of older ones the newest two stay."""
        folder = Path(log.folder)
        if log.is_deleted:
            return
        file_ops.write_file_atomic(str(_snapshot_path(folder, offset)), content)
        for old in _snapshot_offsets(folder)[:-3]:
            file_ops.remove(str(_snapshot_path(folder, old)))

    def close(self) -> None:
        """Close every log and say that the stop was clean; a log that is offline prevents that."""
        is_clean = True
        for log in self._logs.values():
            end_offset = recovery.close(log)
            if end_offset < 0:
                is_clean = False
                continue
            self._note(log, end_offset)
            if end_offset > 0:
                self.write_snapshot(log, *log.producer_snapshot())
        self.write_checkpoint(self._recovery_points)
        if is_clean:
            checkpoint.write_clean_shutdown(self._path)

    def _note(self, log: PartitionLog, durable_end: int) -> None:
        key = (log.topic, log.partition)
        self._recovery_points[key] = durable_end
        self._note_start(log)

    def _note_start(self, log: PartitionLog) -> None:
        if log.log_start_offset > 0:
            self._log_starts[log.topic, log.partition] = log.log_start_offset

    def _write_epochs(self, name: str, log: PartitionLog) -> None:
        entries = log.epoch_entries
        is_known = entries == self._epochs_written.get(name)
        if log.log_end_offset > 0 and not is_known and not log.is_deleted:
            checkpoint.write_leader_epochs(Path(log.folder), entries)
            self._epochs_written[name] = entries


def _epoch_of_this_start(store: MetaStore, node_id: int, *, is_clean: bool) -> int:
    key = b"node/%d" % node_id
    entry = store.get(key)
    unclean_starts = json.loads(entry.value)["unclean_starts"] if entry else 0
    if is_clean or (entry is None and not store.scan(b"topic/")[0]):
        return int(unclean_starts)
    value = json.dumps({"version": 1, "unclean_starts": unclean_starts + 1}).encode()
    store.transact([], [Put(key, value)])
    return int(unclean_starts) + 1


def _is_offset_file(name: str, suffix: str) -> bool:
    return (
        len(name) == _OFFSET_DIGITS + len(suffix)
        and name.endswith(suffix)
        and (name[:_OFFSET_DIGITS].isdigit())
    )


def _snapshot_path(folder: Path, offset: int) -> Path:
    return folder / f"{offset:0{_OFFSET_DIGITS}d}{_SNAPSHOT_SUFFIX}"


def _snapshot_offsets(folder: Path) -> list[int]:
    names = file_ops.list_folder(str(folder))
    return sorted(
        int(name[:_OFFSET_DIGITS]) for name in names if _is_offset_file(name, _SNAPSHOT_SUFFIX)
    )


def _read_snapshot(folder: Path, offset: int) -> bytes | None:
    try:
        return file_ops.read_file(str(_snapshot_path(folder, offset)))
    except FileNotFoundError:
        return None


def _newest_snapshot(folder: Path, offset_max: int) -> tuple[int, bytes]:
    """The newest producers' state that the log surely reaches; (0, b"") when there is none."""
    for offset in reversed(_snapshot_offsets(folder)):
        content = _read_snapshot(folder, offset) if offset <= offset_max else None
        if content is not None:
            return offset, content
    return 0, b""


def _remove_folder(folder: Path) -> None:
    for name in file_ops.list_folder(str(folder)):
        file_ops.remove(str(folder / name))
    file_ops.remove(str(folder))
