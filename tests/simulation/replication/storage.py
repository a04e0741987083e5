"""The directories of one broker, over all of its processes, on a disk that loses writes.

Logs, checkpoints, recovery and cuts are the product's. All operations on files are recorded, and a
power cut leaves any state that the disk may have then (tests/crash_states/disk.py). A process that
was killed leaves what it has written; a sync of it that was under way does not count.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from broker._native.kernel import file_ops
from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.core.cluster.writes import Item
from broker.model.config import load
from broker.model.errors import DiskFull, StorageError
from broker.model.log_results import LogEvent
from broker.model.topic_config import TopicConfig
from broker.segments import text_files
from broker.storage.checkpoints import intact
from broker.storage.checkpoints.intact import Intact
from broker.storage.directories import Directories
from broker.storage.files import deletion
from broker.storage.files.folder_copy import FolderCopy
from broker.storage.recovery import truncation
from broker.storage.recovery.epochs import ElectedEpochs
from broker.storage.recovery.partitions import Partitions
from tests.crash_states.disk import Disk, Operation, put
from tests.crash_states.record import SYNCS
from tests.simulation.replication.batches import split
from tests.simulation.violation import Violation

TOPIC = "topic"
MORE = "more"  # the other directory, within the first one; logs are made in that
_NO_LIMIT = (1 << 63) - 2  # of a lease, in nanoseconds; the largest number means none at all
_CONFIG = load(())
_OFTEN = 1 << 30
_CHANGE_NOTHING = frozenset({"close", "read", "size"})
_PRODUCER_EXPIRATION_MS = 86_400_000


class Disks:
    """The disks of all brokers: the operations of this process, by whose folder they are in."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._first = len(str(self.root)) + 1  # of a path below it
        self._disks: dict[str, Disk] = {}
        self._syncs = 0
        self._is_background = False  # syncs of threads: they count later
        self._full: set[int] = set()  # brokers whose logs find no space
        self.told_lost = 0  # records below a high watermark, by the last warning of a cut

    def mount(self, folder: Path, disk: Disk) -> None:
        self.record()
        disk.move(folder)
        self._disks[folder.name] = disk

    def unmount(self, folder: Path) -> None:
        """Let what a process that has ended still does have no effect."""
        self._disks.pop(folder.name, None)

    def drain(self) -> list[tuple[Disk, Operation]]:
        """Apply the operations so far; return the syncs among them, which are not applied."""
        operations = file_ops.take_recorded()
        syncs: list[tuple[Disk, Operation]] = []
        if not operations:
            return syncs
        disks, first = self._disks, self._first
        for operation in operations:
            op = operation[0]
            if op in _CHANGE_NOTHING:
                continue
            disk = disks.get(operation[1][first:].partition("/")[0])
            if disk is None:
                continue
            if self._is_background and op in SYNCS:
                syncs.append((disk, operation))
            else:
                disk.apply(operation)
        return syncs

    def record(self) -> None:
        """Record anew: open files have other names now, or other writes have to fail."""
        self.drain()
        file_ops.start_recording()
        for broker_id in self._full:
            file_ops.fail("write", f"*/{broker_id}.*/*.log", errno.ENOSPC, times=_OFTEN)

    def set_full(self, broker_id: int, *, is_full: bool) -> None:
        """Let the logs of a broker find space, or none."""
        if is_full:
            self._full.add(broker_id)
        else:
            self._full.discard(broker_id)
        self.record()

    def begin_syncs(self, commit: CommitThread) -> list[tuple[Disk, Operation]]:
        """Run the waiting syncs; they count once `end_syncs` is called with the result."""
        self.drain()
        self._is_background = True
        commit.run()
        running = []
        for disk, (_, path, *_) in self.drain():
            self._syncs += 1
            disk.apply(("begin_sync", path, self._syncs, 0, b"", 0))
            running.append((disk, ("end_sync", path, self._syncs, 0, b"", 0)))
        self._is_background = False
        return running

    def end_syncs(self, running: list[tuple[Disk, Operation]]) -> None:
        self.drain()
        for disk, operation in running:
            disk.apply(operation)


class _Warnings:
    """Takes what cuts of logs tell an operator."""

    def __init__(self, disks: Disks) -> None:
        self._disks = disks

    def info(self, *_: object) -> None:
        """Ignore it."""

    def warning(self, text: str, *values: Any) -> None:
        """Note how many records are lost."""
        if " records=%d " in text:
            self._disks.told_lost += values[1]  # (the folder is the first)


@contextmanager
def recorded_disks() -> Iterator[Disks]:
    """Record everything in a folder in memory."""
    folder = Path("/dev/shm")  # noqa: S108 (a folder in memory; the names in it are random)
    with TemporaryDirectory(dir=folder if folder.is_dir() else None) as name:
        disks = Disks(Path(name))
        file_ops.start_recording()
        try:
            with patch.object(truncation, "_log", _Warnings(disks)):
                yield disks
        finally:
            file_ops.stop_recording()


class Choices:
    """What a power cut leaves of what was not synced."""

    def __init__(self, rng: Random) -> None:
        self.is_torn = rng.random() < 0.3
        self._rng = rng

    def version(self, first: int, last: int) -> int:
        return self._rng.randint(first, last)


class Storage:
    """One data directory, and another one for logs that move."""

    def __init__(self, rng: Random, disks: Disks, broker_id: int, settings: dict[str, str]) -> None:
        self.turn: Turn
        self.logs: dict[Item, PartitionLog] = {}
        self.is_offline = False
        self._rng = rng
        self._disks = disks
        self._broker_id = broker_id
        self._config = TopicConfig(settings, _CONFIG)
        self._count = 0
        self._items: set[Item] = set()  # that have a log in the directory
        self.missing: set[Item] = set()  # on a disk that is not there
        self.failed: set[Item] = set()  # logs that this process does not serve any more
        self.when_failed: Callable[[Item], object] = lambda _: None
        self._is_damaged = False
        self._topic_id: bytes | None = None  # once it has had a log
        self._make_empty()
        self._running: list[tuple[Disk, Operation]] = []
        self._partitions: Partitions
        self._commit: CommitThread

    def _make_empty(self) -> None:
        self._folder = self._fresh_folder()
        (self._folder / MORE).mkdir(parents=True)
        self._disk = Disk(self._folder, {MORE: None})
        self._disks.mount(self._folder, self._disk)

    def _fresh_folder(self) -> Path:
        self._count += 1
        return self._disks.root / f"{self._broker_id}.{self._count}"

    # ---- processes
    # ---------------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> int:
        """Begin a process; return since when the directory is intact."""
        self._commit = CommitThread(0)
        self.turn = Turn(self._commit)
        # Read before any log is: producers that are found then have not been idle before.
        self.turn.now_ms = self.turn.steady_ms = now_ms
        self.intact = Intact(self._folder)
        self._directories = Directories(self._folder, [self._folder / MORE])
        self._directories.measure = lambda each: int(each == self._folder)
        self._partitions = Partitions(
            self._folder,
            ElectedEpochs(),
            self.turn,
            _PRODUCER_EXPIRATION_MS,
            when_lost=self.intact.lost,
            directories=self._directories,
        )
        self.logs, self._running = {}, []
        if self._topic_id is not None:
            for each in self._partitions.rename_strays(lambda *_: self._topic_id):
                deletion.remove_folder(each)
        self.failed = set()
        if self._is_damaged:  # a broker recovers its logs before it registers
            self._is_damaged = False
            for item in sorted(self._items):
                self.logs[item] = self._load(item)
        return self.intact.since

    def crash(self, *, is_power_cut: bool) -> None:
        """End the process; in a power cut, lose what the disk has not got."""
        self._disks.drain()
        self._disks.unmount(self._folder)
        self._commit.stop()  # frees what was not synced, and syncs what is not counted
        self.turn.poll_synced()
        old, self._folder = self._folder, self._fresh_folder()
        if is_power_cut:
            state = self._disk.after_crash(Choices(self._rng))
            self._folder.mkdir()
            put(state, self._folder)
            self._disk = Disk(self._folder, state)
            shutil.rmtree(old)
        else:
            old.rename(self._folder)
        self._disks.mount(self._folder, self._disk)

    def damage(self, *, leaves_holes: bool) -> bool:
        """Lose records that were synced, after a crash; False: none are known to be."""
        points = text_files.read_offsets(self._folder / text_files.RECOVERY_POINTS)
        for item in sorted(self._items):
            recovery_point = points.get((TOPIC, item[1]), 0)
            cuts = self._cuts(item, recovery_point)
            if cuts:
                path, size = self._rng.choice(cuts)
                file_ops.truncate(path, size)
                file_ops.sync_file(path)
                later = sorted(each for each in path.parent.glob("*.log") if each.name > path.name)
                # A start that reads this file finds the hole; others may be found by checks only.
                is_read = bool(later) and int(later[0].stem) > recovery_point
                if not is_read or not leaves_holes or self._rng.random() < 0.3:
                    file_ops.remove_all([str(each) for each in later])
                file_ops.sync_folder(path.parent)
                self._disks.drain()
                self._is_damaged = True
        return self._is_damaged

    def _cuts(self, item: Item, recovery_point: int) -> list[tuple[Path, int]]:
        """Return where a file can be cut so that the next start finds that records are gone."""
        found: list[tuple[Path, int]] = []
        end = 0
        for path in sorted(self._folder.glob(f"**/{TOPIC}-{item[1]}/*.log")):
            position = 0
            for batch in split(path.read_bytes()):
                is_torn = batch.base_offset < end
                if is_torn or batch.end_offset > recovery_point:
                    return found
                found.append((path, position))
                position += len(batch.data)
                end = batch.end_offset
        return found

    def wipe(self) -> None:
        """Have an empty directory, after a crash."""
        self._items.clear()
        self._disks.unmount(self._folder)
        shutil.rmtree(self._folder)
        self._make_empty()

    def lose(self, items: set[Item]) -> None:
        """Have an empty disk in the place of another one, after a crash (intact.py)."""
        for item in sorted(items & self._items):
            name = f"{TOPIC}-{item[1]}"
            for pattern in (name, f"{name}.*"):  # also what an unfinished move has left
                for each in sorted(self._folder.glob(f"**/{pattern}")):
                    deletion.remove_folder(each)
            self._items.discard(item)
        intact.reset(self._folder)
        self._disks.drain()

    # ---- turns
    # ---------------------------------------------------------------------------------------------

    def begin_turn(self, *, now_ms: int, broker_epoch: int, may_serve: bool) -> None:
        turn = self.turn
        turn.now_ms = turn.steady_ms = now_ms
        turn.broker_epoch = broker_epoch
        turn.serves_until_ns = _NO_LIMIT if may_serve else 0

    def end_turn(self) -> None:
        turn = self.turn
        turn.end()
        events = turn.events
        if not events:
            return
        turn.events = []
        for kind, log in events:
            if kind is LogEvent.ROLLED:
                self._partitions.write_snapshot(log, *log.producer_snapshot())
            elif kind is LogEvent.OFFLINE:
                item = log.topic_id, log.partition
                if item not in self.failed:
                    raise Violation(f"{log!r} is offline")
                self.when_failed(item)

    def needs_sync(self) -> bool:
        for log in self.logs.values():  # noqa: SIM110 (in each turn: a generator takes longer)
            if log.is_syncing:
                return True
        return False

    def begin_syncs(self) -> None:
        self._running = self._disks.begin_syncs(self._commit)

    def end_syncs(self) -> None:
        running, self._running = self._running, []
        self._disks.end_syncs(running)
        self.turn.poll_synced()

    def checkpoint(self) -> None:
        """Write recovery points and high watermarks, as the broker does periodically."""
        points = self._partitions.plan_checkpoint()
        for log, reason in self._partitions.prepare_checkpoint().items():
            raise Violation(f"{log!r}: {reason}")
        self._partitions.write_checkpoint(points)

    # ---- logs
    # ---------------------------------------------------------------------------------------------

    def open(self, item: Item) -> PartitionLog:
        """Open a replica, or create it."""
        if item not in self.logs:
            self.logs[item] = self._load(item)
        return self.logs[item]

    def _load(self, item: Item) -> PartitionLog:
        self._items.add(item)
        self._topic_id = item[0]
        [log] = self._partitions.announce_topic(TOPIC, item[0], [item[1]], self._config)
        if item in self.missing:
            self.failed.add(item)
            log.end_service()
            log.end_loading()
            return log
        error = self._partitions.load(log)
        errors = self._partitions.settle([log])
        if error is not None or errors:
            raise Violation(f"{log!r} cannot be opened: {error} {errors}")
        log.end_loading()
        return log

    def configure(self, log: PartitionLog, min_isr: int) -> None:
        """Apply the topic's settings."""
        log.configure(
            min_isr=min_isr,
            segment_bytes_max=self._config.integer("segment.bytes"),
            is_group_commit=self._config.is_group_commit,
        )

    def truncate(self, log: PartitionLog, offset: int, *, is_anew: bool = False) -> bool:
        """Cut a log that is loading, or begin it anew; False while it is written or synced."""
        if not log.hold():
            return False
        try:
            if is_anew:
                self._partitions.begin_anew(log, offset)
            else:
                for _ in self._partitions.read_before_cut(log, offset):
                    pass
                self._partitions.truncate(log, offset)
        except DiskFull:
            log.end_hold()
            return False
        except StorageError as error:
            raise Violation(f"{log!r} cannot be cut: {error}") from error
        log.end_hold()
        return True

    def drop(self, item: Item) -> bool:
        """Remove a replica that other brokers have now; False while it is written or synced."""
        log = self.logs.get(item)
        if log is None:  # as a start finds it
            doomed = self._partitions.rename_strays(
                lambda *_: item[0], lambda _, partition: partition != item[1]
            )
            # (The copies of others may be in use: only a start finds all of them left.)
            doomed = [each for each in doomed if each.name.startswith(f"{TOPIC}-{item[1]}.")]
        elif log.is_syncing or log.kept_offset < log.log_end_offset:
            return False
        else:
            log.begin_loading()
            self._partitions.release(log)
            log.release()
            log.end_loading()
            del self.logs[item]
            folders = deletion.DeletedFolders(self._folder, others=[self._folder / MORE])
            doomed = folders.put_away_moved(TOPIC, *item)
        for each in doomed:
            deletion.remove_folder(each)
        self._items.discard(item)
        self._partitions.forget(TOPIC, [item[1]])
        return True

    @property
    def unfinished(self) -> dict[str, Path]:
        """The moves that have not ended, by the names of folders."""
        return self._directories.moving

    def begin_move(self, log: PartitionLog) -> FolderCopy:
        """Begin to copy a log into the directory where it is not."""
        is_first = Path(log.folder).parent == self._folder
        copy = FolderCopy(log, self._folder / MORE if is_first else self._folder)
        copy.begin()
        copy.resolve()
        return copy

    def switch(self, copy: FolderCopy) -> bool:
        """Let a log use its copy, if that has everything and the log is not written just now."""
        return self._partitions.switch(copy, lambda work: work())

    def fail(self, items: Iterable[Item]) -> None:
        """Let the disk of some logs fail."""
        for item in items:
            self.failed.add(item)
            self.logs[item].end_service()

    def has(self, item: Item) -> bool:
        """Return whether the directory has a log of a partition."""
        return item in self._items

    def told_lost(self) -> int:
        """Return of how many records below a high watermark the last cuts have told."""
        told, self._disks.told_lost = self._disks.told_lost, 0
        return told


def written(log: Any, segment: int, position: int) -> Iterator[tuple[int, bytes]]:
    """Yield base offset and bytes of each segment's file from a position on."""
    for base_offset, size, _ in log.segment_entries:
        if base_offset < segment:
            continue
        start = position if base_offset == segment else 0
        if size > start:
            fd = os.open(f"{log.folder}/{base_offset:020}.log", os.O_RDONLY)
            data = os.pread(fd, size - start, start)
            os.close(fd)
            yield base_offset, data
