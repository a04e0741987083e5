"""Crashes of a broker with streams of events: its logs, and what SQLite writes for their files.

The log and the file of a partition are written by different hands, so a crash may leave any state
of one beside any state of the other. Whatever it is, versions, events and snapshots have to be
those of the log.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any, Final, TypeVar
from unittest.mock import patch

import pytest

from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.cursus.batch import AGGREGATE_VERSION, SNAPSHOT_VERSION
from broker.codec.encoding import encode
from broker.core.logs import partition
from broker.core.topics.rules import NewTopic
from broker.core.topics.topic import Topic
from broker.model.errors import PolylogError, RequestError
from broker.model.settings import EVENT_SOURCING
from broker.model.topic_config import STREAM_SETTINGS
from broker.protocols.cursus.event_streams import file, loading, partition_streams
from broker.protocols.cursus.event_streams.file import (
    FILE_NAME,
    DamagedFileError,
    Snapshot,
    StreamFile,
)
from broker.protocols.cursus.event_streams.partition_streams import PartitionStreams
from broker.protocols.cursus.event_streams.tables import EventStreams
from broker.storage.files.folder_copy import FolderCopy
from tests.crash_states.broker_run import TWO_DIRECTORIES, BrokerRun, others, place_of
from tests.crash_states.disk import State
from tests.crash_states.expected_streams import (
    Event,
    ExpectedStreams,
    log_findings,
    stream_findings,
)
from tests.crash_states.exploration import Bug, CrashState, Exploration, exploring
from tests.crash_states.finding import Finding, Outcome
from tests.crash_states.record import Record
from tests.crash_states.sqlite_files import recording_sqlite
from tests.support.native_log import NOW_MS

NOT_SERVED = "streams are not served"
TOPIC: Final = "orders"
KEYS = [b"%02d " % number + b"k" * 120 for number in range(30)]  # a page of the file has a few
STEPS = 14
STEPS_OF_A_TURN = 10
TURNS_MAX = 1_000  # until something is done: more than anything needs
LOADS_MAX = 3  # a damaged file is found by the first load
ACTIONS = {
    "append": 10,
    "snapshot": 2,
    "cover": 4,
    "look": 2,
    "lead_again": 1,
    "find_damage": 1,
    "checkpoint": 1,
}
MOVES = {"move": 4}  # where there is another directory
_T = TypeVar("_T")


class _Here:
    """The streams' thread, in this one."""

    async def run(self, work: Callable[[], _T]) -> _T:
        return work()

    def stop(self) -> None:
        pass


class StreamBroker:
    """A broker run, and the streams of its partitions."""

    def __init__(
        self, path: Path, loop: asyncio.AbstractEventLoop, record: Record | None = None
    ) -> None:
        """Start."""
        self.broker = BrokerRun(path, loop, record)
        self.owner = EventStreams()
        self.owner._thread = _Here()  # type: ignore[assignment]

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run something to its end; turns end and syncs are done meanwhile."""
        loop = self.broker.loop
        task = loop.create_task(work)
        for _ in range(TURNS_MAX):
            for _ in range(STEPS_OF_A_TURN):
                loop.run_until_complete(asyncio.sleep(0))
                if task.done():
                    return task.result()
            self.broker.end_turn()
            self.broker.begin_syncs()
            self.broker.end_syncs()
        raise AssertionError("it never ends")

    def partitions(self) -> Iterator[tuple[Topic, PartitionLog]]:
        """Return the partitions with streams."""
        return ((topic, log) for topic, log in self.broker.logs() if not topic.is_internal)

    def streams(self, topic: Topic, log: PartitionLog) -> PartitionStreams:
        """Return the streams of a partition, as requests that are tried again get them."""
        for _ in range(LOADS_MAX - 1):
            try:
                return self.run(self.owner.of(topic, log))
            except RequestError:
                continue
        return self.run(self.owner.of(topic, log))

    def append(self, topic: Topic, log: PartitionLog, event: Event) -> None:
        """Append an event or a snapshot, as the handlers do once they know the version."""
        self.append_known(topic, log, event, self.streams(topic, log))

    def append_known(
        self, topic: Topic, log: PartitionLog, event: Event, streams: PartitionStreams
    ) -> None:
        """Append it in one step."""
        name = SNAPSHOT_VERSION if event.is_snapshot else AGGREGATE_VERSION
        row: Any = (event.key, b"x" * 10, [(name, b"%d" % event.version)])
        [batch] = encode([row], timestamp_ms=NOW_MS, batch_bytes_max=1 << 20)
        offset = partition.append(log, topic.config, batch, NOW_MS).base_offset
        assert offset == event.offset
        if event.is_snapshot:
            streams.saved(event.key, Snapshot(event.version, offset))
        else:
            streams.appended(event.key, event.version, offset)

    def move(self, topic: Topic, log: PartitionLog, while_held: Callable[[], None]) -> None:
        """Move a partition to its other directory, if there is one."""

        def switched(copy: FolderCopy, switch: Callable[[], bool]) -> bool:
            async def within() -> bool:
                async with self.owner.moving(topic, log, copy.folder):
                    return switch()

            self.run(self.owner.copy(topic, log, copy.folder, lambda: True))
            return self.run(within())

        self.broker.move(log, while_held, switched)

    def stop(self) -> None:
        """Stop cleanly: what is in no file yet is written."""
        self.run(self.owner.stop())
        self.broker.stop()

    def kill(self) -> None:
        """End; what SQLite does when its files are closed comes after the end."""
        self.run(self.owner._tasks.stop())
        self.broker.kill()
        self.owner._files.close_all()


class _Driver:
    """Acts as clients do, and the broker's own background work."""

    def __init__(self, broker: StreamBroker, record: Record, rng: Random) -> None:
        self._broker = broker
        self._record = record
        self._rng = rng
        self._haste = rng.choice((0.0, 0.3, 0.8))  # how often nobody waits for a sync

    def begin(self, expected: ExpectedStreams) -> None:
        """Make the topic, or tell what the start has found of it."""
        broker = self._broker.broker
        if broker.topics.get(TOPIC) is None:
            config = {
                EVENT_SOURCING: "true",
                **STREAM_SETTINGS,
                "polylog.durability": self._rng.choice(("group-commit", "os")),
                "segment.bytes": str(self._rng.choice((3_000, 1 << 20))),
                "index.interval.bytes": "400",
            }
            broker.run(broker.topics.create(NewTopic(TOPIC, 2, config=config)))
        for topic, log in self._broker.partitions():
            place = place_of(log)
            self._record.tell("made", place, topic.config.text("polylog.durability"))
            if place in expected.sent:
                self._record.tell("recovered", place, log.log_end_offset)

    def _any(self) -> tuple[Topic, PartitionLog]:
        return self._rng.choice(list(self._broker.partitions()))

    def append(self) -> None:
        """Append events of old and new streams."""
        topic, log = self._any()
        for _ in range(self._rng.choice((1, 3, 12))):
            key = self._rng.choice(KEYS)
            streams = self._broker.streams(topic, log)
            version = self._broker.run(streams.version(key)) + 1
            self._send(topic, log, Event(key, version, log.log_end_offset))
        self._finish(log)

    def snapshot(self) -> None:
        """Save a snapshot of a stream that has events."""
        topic, log = self._any()
        key = self._rng.choice(KEYS)
        version = self._broker.run(self._broker.streams(topic, log).version(key))
        if version > 0:
            at = self._rng.randint(1, version)
            self._send(topic, log, Event(key, at, log.log_end_offset, is_snapshot=True))
            self._finish(log)

    def _send(self, topic: Topic, log: PartitionLog, event: Event) -> None:
        self._record.tell("sending", place_of(log), event)
        self._broker.append(topic, log, event)

    def _finish(self, log: PartitionLog) -> None:
        """Begin to write what was appended, or wait until it is acknowledged."""
        broker = self._broker.broker
        broker.end_turn()
        if self._rng.random() >= self._haste:
            broker.until_synced(log)
            self._record.tell("told", place_of(log), log.high_watermark)
            broker.write_snapshots()
        self._record.tell("written", place_of(log), log.durable_end)

    def cover(self) -> None:
        """Write files behind the appends."""
        self._broker.run(self._broker.owner.cover(list(self._broker.partitions())))
        for _, log in self._broker.partitions():
            self._record.tell("written", place_of(log), log.durable_end)

    def look(self) -> None:
        """Look something up that is in no memory."""
        topic, log = self._any()
        streams = self._broker.streams(topic, log)
        streams.heads.forget_versions(len(KEYS))
        for key in self._rng.sample(KEYS, 3):
            self._broker.run(streams.find(key, 1, 10))

    def lead_again(self) -> None:
        """Forget what is known of a partition: the file is caught up with the log."""
        topic, log = self._any()
        self._broker.owner.forget(log)
        self._broker.streams(topic, log)

    def find_damage(self) -> None:
        """Have SQLite say that a file is damaged: it is removed, and made anew."""
        topic, log = self._any()
        with pytest.raises(DamagedFileError):
            self._broker.owner._files.run(Path(log.folder), _damaged)
        self._broker.owner.forget(log)
        self._broker.streams(topic, log)

    def move(self) -> None:
        """Move a partition to another directory, while events may be appended to it."""
        topic, log = self._any()
        streams = self._broker.streams(topic, log)
        key = self._rng.choice(KEYS)
        version = self._broker.run(streams.version(key))
        appended = 0

        def append() -> None:
            nonlocal appended
            if self._rng.random() < 0.3:
                appended += 1
                event = Event(key, version + appended, log.log_end_offset)
                self._record.tell("sending", place_of(log), event)
                self._broker.append_known(topic, log, event, streams)
            if self._rng.random() < 0.5:
                self._broker.broker.end_turn()

        self._broker.move(topic, log, append)
        self._finish(log)

    def checkpoint(self) -> None:
        """Write recovery points."""
        self._broker.broker.checkpoint()


def _damaged(_: StreamFile) -> None:
    raise DamagedFileError("planned")


class StreamRuns(Exploration[ExpectedStreams]):
    """All runs of a seed."""

    scenario = "streams"

    def live(self, path: Path, record: Record, rng: Random, expected: ExpectedStreams) -> None:
        """Run once."""
        with self._small_limits(), recording_sqlite(record, FILE_NAME):
            broker = StreamBroker(path, self.loop, record)
            driver = _Driver(broker, record, rng)
            driver.begin(expected)
            actions = ACTIONS | MOVES if others(path) else ACTIONS
            for action in rng.choices([*actions], [*actions.values()], k=rng.randint(4, STEPS)):
                getattr(driver, action)()
            if rng.random() < 0.4:
                broker.stop()
                return
            record.drain()
            end = len(record.operations)
            broker.kill()
            del record.operations[end:]

    def check(
        self, state: State, expected: ExpectedStreams, rng: Random, *, is_power_cut: bool
    ) -> Outcome:
        """Start, compare all answers with the logs, and go on."""
        if is_power_cut:
            expected = expected.copy()
            expected.power_cut()
        with self.made(state) as path, self._small_limits():
            broker = StreamBroker(path, self.loop)
            try:
                return Outcome(list(self._findings(broker, expected, rng)))
            except PolylogError as error:
                return Outcome([Finding(NOT_SERVED, repr(error))])
            finally:
                broker.kill()

    def _findings(
        self, broker: StreamBroker, expected: ExpectedStreams, rng: Random
    ) -> Iterator[Finding]:
        for topic, log in broker.partitions():
            yield from log_findings(log, expected)
            yield from broker.run(stream_findings(broker.streams(topic, log), log, KEYS))
            # (What is appended to is what was not looked up only just now.)
            broker.streams(topic, log).heads.forget_versions(len(KEYS))
            again = rng.sample(KEYS, 3)
            for key in again:
                version = broker.run(broker.streams(topic, log).version(key)) + 1
                broker.append(topic, log, Event(key, version, log.log_end_offset))
            broker.broker.until_synced(log)
            yield from log_findings(log, ExpectedStreams())
            if rng.random() < 0.5:
                broker.run(broker.owner.cover([(topic, log)]))
            else:
                broker.owner.forget(log)
            yield from broker.run(stream_findings(broker.streams(topic, log), log, again))

    def _small_limits(self) -> ExitStack:
        """Have what takes thousands of events happen with a few."""
        rng = Random(self.seed)
        stack = ExitStack()
        for module, name, values in (
            (file, "STREAM_FILE_LOG_PAGES", (4, 12, 1_000)),
            (file, "STREAM_FILE_CACHE_BYTES", (4 << 10, 1 << 20)),
            (file, "EVENTS_WRITTEN_PER_STATEMENT", (3, 1_000)),
            (loading, "EVENTS_RECENT_MAX", (5, 1_000)),
            (partition_streams, "STREAM_KEYS_READ_PER_STATEMENT", (4, 1_000)),
        ):
            stack.enter_context(patch.object(module, name, rng.choice(values)))
        return stack


def stream_states(
    seed: int,
    bug: Bug = Bug(),  # noqa: B008 (a tuple)
    only: int | None = None,
) -> Iterator[CrashState]:
    """Check the crash states of one seed, or one of them alone."""
    with exploring(seed, bug) as place:
        # Half of the seeds have another directory for partitions.
        state = TWO_DIRECTORIES if seed % 2 else None
        yield from StreamRuns(seed, bug, place, only).states(state, ExpectedStreams())
