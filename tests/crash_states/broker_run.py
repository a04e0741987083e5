"""One run of a broker on a data directory: the real parts that write files, without sockets.

Logs, topics, checkpoints, retention, compaction, groups and the metadata store are the product's;
the test plays the loop and the sync thread, ends the turns itself and executes the work of the I/O
thread at once. SQLite's writes to its own files are not recorded: each commit is one operation,
which puts the whole database on the disk or does not.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker.codec.compression import decompress_into
from broker.core.coordination.partitions import Environment
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.maintenance import cleaner
from broker.core.maintenance.cleaner import Cleaner
from broker.core.maintenance.retention import Retention
from broker.core.metadata import OwnMetadata
from broker.core.producer_ids import ProducerIds
from broker.core.topics.deletion import Deletions
from broker.core.topics.interfaces import LeadsAll
from broker.core.topics.local_topics import LocalTopics
from broker.core.topics.placing import Standalone
from broker.core.topics.topic import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topic
from broker.core.topics.topics import Topics
from broker.core.transactions.coordinator import TransactionCoordinator
from broker.model.config import load
from broker.model.errors import StorageError
from broker.model.limits import TRANSACTION_RETRY_MS
from broker.model.log_results import LogEvent
from broker.segments import text_files
from broker.storage import metadata
from broker.storage.directories import Directories
from broker.storage.files.deletion import DeletedFolders
from broker.storage.files.folder_copy import FolderCopy
from broker.storage.maintenance import compactor
from broker.storage.maintenance.compactor import Job
from broker.storage.metadata.sqlite import FILE_NAME, SqliteMetaStore
from broker.storage.recovery.epochs import UncleanStarts
from broker.storage.recovery.partitions import Partitions
from tests.crash_states.disk import State
from tests.crash_states.expected_state import Place
from tests.crash_states.record import Record
from tests.support.fakes import FakeTable, FakeTopics
from tests.support.manual_clock import ManualClock
from tests.support.native_log import NOW_MS

_T = TypeVar("_T")
# Lets a log use its copy, given that and what does it: whether it has.
AroundSwitch = Callable[[FolderCopy, Callable[[], bool]], bool]
SYNCS_MAX = 1_000  # of one log at once: more than any has segments
TURNS_MAX = 100  # until transactions have ended: more than a start needs
IDLE_TURNS = 2  # without a write: then no work is left
MORE = "more"  # the folder of another directory for partitions
TWO_DIRECTORIES: State = {MORE: None, f"{MORE}/{text_files.META_PROPERTIES}": b""}
CONFIG = load(
    (
        "offsets.topic.num.partitions=1",
        "transaction.state.log.num.partitions=1",
        "log.segment.delete.delay.ms=0",
    )
)


class _Store(SqliteMetaStore):
    """Records every commit."""

    def __init__(self, path: Path, record: Record | None) -> None:
        super().__init__(path)
        self._record = record

    def transact(
        self, guards: Sequence[metadata.Guard], operations: Sequence[metadata.Operation]
    ) -> int | None:
        revision = super().transact(guards, operations)
        if revision is not None and self._record is not None:
            self._record.commit(self._path, self._connection.serialize())
        return revision


class _Inline:
    """The I/O thread, in this one."""

    async def run(self, work: Callable[[], _T]) -> _T:
        return work()


class _Logs:
    """The logs as topics use them; the test loads them itself, before anything else."""

    is_read_only = False
    change_count = 0

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self.claim = partitions.claim
        self.announce_topic = partitions.announce_topic
        self.delete = partitions.delete
        self.forget = partitions.forget
        self.configure = partitions.configure

    async def open_topic(self, *args: Any) -> list[PartitionLog]:
        return self._partitions.open_topic(*args)

    def load(self, _logs: Iterable[Any]) -> None:
        raise AssertionError("no leader changes")

    async def free_deleted(self, _topic: str, _numbers: Iterable[int]) -> None:
        pass

    async def release(self, _log: Any) -> None:
        raise AssertionError("no leader changes")

    async def stop_accepting(self, _log: Any) -> None:
        raise AssertionError("no leader changes")

    async def leave(self, _log: Any) -> None:
        raise AssertionError("no leader changes")

    async def remove_moved(self, _topic: str, _topic_id: bytes, _number: int) -> None:
        raise AssertionError("no leader changes")

    async def until_loaded(self, logs: Sequence[Any]) -> None:
        assert not any(log.is_loading for log in logs)


def others(path: Path) -> list[Path]:
    """Return the other directories for partitions; here they are in the data directory."""
    return [path / MORE] if (path / MORE).exists() else []


class BrokerRun:
    """From a start to a stop, a kill or a power cut."""

    def __init__(
        self, path: Path, loop: asyncio.AbstractEventLoop, record: Record | None = None
    ) -> None:
        """Start: recover every log. One that cannot be used is offline."""
        self.path = path
        self.loop = loop
        self.record = record
        self.store = store = _Store(path / FILE_NAME, record)
        self.clock = ManualClock(NOW_MS)
        self.commit = CommitThread(0)
        self.turn = Turn(self.commit)
        self.turn.decompress = decompress_into
        self.turn.now_ms = NOW_MS
        self.directories = directories = Directories(path, others(path))
        directories.measure = lambda _directory: 1 << 30
        self.partitions = Partitions(
            path, UncleanStarts(store, 1), self.turn, 86_400_000, directories=directories
        )
        io_thread: Any = _Inline()
        self.metadata = OwnMetadata(store, io_thread)
        folders = DeletedFolders(path, others=others(path))
        self.deletions = Deletions(self.metadata, io_thread, folders, Standalone(1))
        logs = _Logs(self.partitions)
        local = LocalTopics(CONFIG, self.metadata, FakeTable(), logs, self.deletions, LeadsAll())
        self.topics = Topics(self.metadata, local, logs, Standalone(1))
        self.ids = ProducerIds(self.metadata)
        # Called before the log starts are written.
        self.starts_planned: Callable[[Sequence[tuple[PartitionLog, int]]], None] = lambda _: None
        self.retention = Retention(
            self.topics.logs, self.clock, self._on_disk, self._save_log_starts
        )
        self.cleaner: Cleaner
        self.groups = GroupCoordinator(
            Environment(
                self._offsets_log, loop.create_future, self.clock, lambda _: None, lambda: 1
            ),
            topics=FakeTopics(),
            partition_count=1,
        )
        # Called before a marker is appended.
        self.marking: Callable[[PartitionLog, bytes], None] = lambda _log, _batch: None
        self.transactions = TransactionCoordinator(
            Environment(self._state_log, loop.create_future, self.clock, lambda _: None, lambda: 1),
            self._find_log,
            self.groups,
            partition_count=1,
        )
        self.run(self._start())

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run the loop until this is done, and everything that it has begun."""
        return self.loop.run_until_complete(_with_its_tasks(work))

    async def _start(self) -> None:
        logs = self.topics.load()
        self.deletions.remove(self.partitions.rename_strays())
        for log in logs:
            error = self.partitions.load(log)
            if error is not None:
                log.take_offline(error)
        for log, error in self.partitions.settle(logs).items():
            log.take_offline(error)
        for log in logs:
            log.end_loading()
        self.cleaner = Cleaner(
            self.topics.logs,
            self.clock,
            self._on_disk,
            self._checkpoint,
            self.path,
            cleaner.Settings(0, 1 << 20),
        )
        self.topics.when_deleted(self.cleaner.topic_deleted)
        if self.topics.get(OFFSETS_TOPIC) is not None:
            self.load_groups()
        if self.topics.get(TRANSACTIONS_TOPIC) is not None:
            self.load_transactions()

    def load_groups(self) -> None:
        """Load the committed offsets of groups."""
        self.groups.expect([0])
        self.groups.recovered(0, is_empty=self._offsets_log(0).log_end_offset == 0)
        while self.groups.is_loading:
            self.groups.tick()

    def load_transactions(self) -> None:
        """Load the coordinator's decisions; what follows from them comes with its turns."""
        self.transactions.expect([0])
        is_empty = self._state_log(0).log_end_offset == 0
        self.transactions.recovered(0, is_empty=is_empty)
        for _, log in self.logs():
            if log.open_transactions:
                self.transactions.suspect((log.topic, log.partition))

    def finish_transactions(self) -> None:
        """Let the coordinator finish all remaining work."""
        idle_turns = 0
        for _ in range(TURNS_MAX):
            before = [log.log_end_offset for _, log in self.logs()]
            self.take_turn()
            is_same = before == [log.log_end_offset for _, log in self.logs()]
            is_idle = is_same and not self.transactions.is_loading
            idle_turns = idle_turns + 1 if is_idle else 0
            if idle_turns == IDLE_TURNS:
                return
        raise AssertionError("transactions do not end")

    def take_turn(self) -> None:
        """Sync everything and let both coordinators continue."""
        self.clock.advance(TRANSACTION_RETRY_MS)
        self.end_turn()
        self.begin_syncs()
        self.end_syncs()
        for _, log in self.logs():
            if log.is_group_commit:
                self.until_synced(log)
        self.groups.tick()
        self.transactions.tick()
        self.run(asyncio.sleep(0))
        self.end_turn()

    def logs(self) -> Iterator[tuple[Topic, PartitionLog]]:
        """Return every partition in a deterministic order."""
        for topic in self.topics:
            log: Any
            for log in topic.logs:
                yield topic, log

    def log(self, topic: str) -> PartitionLog:
        """The one partition of an internal topic."""
        found = self.topics.get(topic)
        assert found is not None
        log: Any = found.logs[0]
        return cast("PartitionLog", log)

    def _offsets_log(self, _number: int) -> Any:
        return self.log(OFFSETS_TOPIC)

    def _state_log(self, _number: int) -> Any:
        return self.log(TRANSACTIONS_TOPIC)

    def _find_log(self, place: tuple[str, int]) -> Any:
        topic = self.topics.get(place[0])
        log: Any = topic.log(place[1]) if topic is not None else None
        return None if log is None else _MarkedLog(log, self.marking)

    # ---- turns -----------------------------------------------------------------------------------

    def end_turn(self) -> None:
        """Write what is staged; syncs begin."""
        self.turn.end()

    def until_synced(self, log: PartitionLog) -> None:
        """Sync until the log is as durable as its durability setting requires, and readable."""
        self.end_turn()
        for _ in range(SYNCS_MAX):
            is_behind = log.is_group_commit and log.durable_end < log.log_end_offset
            if log.is_offline or not (log.unsealed_count or is_behind):
                return
            before = log.durable_end, log.unsealed_count
            self.end_turn()  # a callback of the last sync may have written
            self.begin_syncs()
            self.end_syncs()
            if not log.is_group_commit and before == (log.durable_end, log.unsealed_count):
                return  # what a start has recovered is synced with the next append
        raise AssertionError(f"{log!r} is never synced")

    def begin_syncs(self) -> None:
        """Let the sync thread work: it covers what is written by now."""
        if self.record is None:
            self.commit.run()
        else:
            self.record.begin_syncs(self.commit)

    def end_syncs(self) -> None:
        """Complete the sync: the logs are notified."""
        if self.record is not None:
            self.record.end_syncs()
        self.turn.poll_synced()

    def write_snapshots(self) -> None:
        """Do what the broker does after a roll."""
        events, self.turn.events = self.turn.events, []
        for kind, log in events:
            if kind is LogEvent.ROLLED:
                self.partitions.write_snapshot(log, *log.producer_snapshot())

    # ---- the disk --------------------------------------------------------------------------------

    async def _on_disk(self, work: Callable[[], None]) -> bool:
        try:
            work()
        except (StorageError, FileNotFoundError):
            return False
        return True

    async def _checkpoint(self) -> bool:
        self.checkpoint()
        return True

    async def _save_log_starts(self, planned: Sequence[tuple[Any, int]]) -> bool:
        self.save_log_starts(planned)
        return True

    def checkpoint(self) -> None:
        """Write recovery points, as the broker does periodically."""
        points = self.partitions.plan_checkpoint()
        for log, reason in self.partitions.prepare_checkpoint().items():
            log.take_offline(reason)
        self.partitions.write_checkpoint(points)

    def move(
        self,
        log: PartitionLog,
        while_held: Callable[[], None],
        around_switch: AroundSwitch = lambda _, switch: switch(),
    ) -> None:
        """Move a log to its other directory, if there is one; others may append meanwhile."""
        directory = next((each for each in self.directories if each != _directory(log)), None)
        if directory is None or log.is_offline or log.is_syncing:
            return

        def on_loop(work: Callable[[], object]) -> object:
            result = work()
            if log.is_switching:
                while_held()
            return result

        self.run(self.cleaner.rest(log))
        moved = FolderCopy(log, directory)
        moved.begin()
        moved.resolve()
        while moved.step() is not None:
            pass
        is_moved = around_switch(moved, lambda: self.partitions.switch(moved, on_loop))
        self.cleaner.resume(log)
        self.run(
            _as_task(lambda: self.deletions.remove([moved.left if is_moved else moved.folder]))
        )

    def save_log_starts(self, planned: Sequence[tuple[PartitionLog, int]]) -> None:
        """Make the log starts durable."""
        self.starts_planned(planned)
        self.partitions.note_log_starts(planned)
        self.partitions.write_log_starts()

    def stop(self) -> None:
        """Stop cleanly."""
        self._end()
        self.partitions.close()
        self._let_go()

    def kill(self) -> None:
        """End at once; the files stay as they are."""
        self._end()
        self._let_go()

    def _end(self) -> None:
        self.deletions.stop()
        self.transactions.close()
        self.groups.close()
        self.commit.stop()
        self.end_syncs()

    def _let_go(self) -> None:
        """Close the descriptors of jobs submitted after the stop."""
        self.turn.poll_synced()
        self.turn.poll_synced()
        self.store.close()


def _directory(log: PartitionLog) -> Path:
    return Path(log.folder).parent


async def _as_task(work: Callable[[], None]) -> None:
    work()


class _MarkedLog:
    """A log whose markers are recorded."""

    def __init__(self, log: PartitionLog, marking: Callable[[PartitionLog, bytes], None]) -> None:
        self._log = log
        self._marking = marking

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append_internal(self, batch: bytes) -> int:
        self._marking(self._log, batch)
        return self._log.append_internal(batch)


def place_of(log: PartitionLog) -> Place:
    """Return a unique name of a partition: a recreated topic has another id."""
    return log.topic_id, log.partition


async def _with_its_tasks(work: Coroutine[Any, Any, _T]) -> _T:
    earlier = asyncio.all_tasks()
    result = await work
    while others := asyncio.all_tasks() - earlier:
        await asyncio.gather(*others)
    return result


@asynccontextmanager
async def compacting_here(job: Job) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Run a compaction in this process."""
    messages: list[dict[str, Any]] = []
    compactor.compact(job, messages.append)

    async def progress() -> AsyncIterator[dict[str, Any]]:
        for message in messages:
            yield message

    yield progress()
