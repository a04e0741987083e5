"""Streams of a partition: made from its log, as leader and follower, within limits of memory."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.codec.encoding import encode
from broker.core.topics.topic import Topic
from broker.model.config import load
from broker.model.errors import RequestError, StorageError
from broker.model.settings import EVENT_SOURCING
from broker.model.topic_config import STREAM_SETTINGS, TopicConfig
from broker.protocols.cursus.event_streams import tables
from broker.protocols.cursus.event_streams.file import FILE_NAME, Snapshot, StreamFile
from broker.protocols.cursus.event_streams.tables import EventStreams, Streams
from tests.support.native_log import NOW_MS, TOPIC_ID, Logs
from tests.support.native_replica import LEADER, lead

MANY = 1000


class Partition:
    """A log of events, whose turns are ended while something is awaited."""

    def __init__(self, path: Path) -> None:
        self.logs = Logs(path)
        self.log: Any = self.logs.create(is_group_commit=False)
        config = TopicConfig({EVENT_SOURCING: "true", **STREAM_SETTINGS}, load())
        self.topic = Topic("topic", TOPIC_ID, config, [self.log])

    def write(self, key: bytes, version: int, name: bytes = b"cursus.aggregate_version") -> int:
        """Append a record as an event, without telling anybody."""
        rows: Any = [(key, b"event %d" % version, [(name, b"%d" % version)])]
        [batch] = encode(rows, timestamp_ms=NOW_MS, batch_bytes_max=1 << 30)
        result = self.log.append(batch)
        assert result[0] == 0
        self.logs.turn.end()
        return int(result.base_offset)

    def append(self, streams: Streams, key: bytes, version: int) -> int:
        """Append an event as the handler does."""
        offset = self.write(key, version)
        streams.appended(key, version, offset)
        return offset

    def run(self, work: Any) -> Any:
        async def served() -> Any:
            task = asyncio.ensure_future(work)
            while not task.done():
                self.logs.turn.end()
                self.logs.turn.poll_synced()
                await asyncio.sleep(0.001)
            return await task

        return asyncio.run(served())

    @property
    def file(self) -> Path:
        return self.logs.folder() / FILE_NAME

    @property
    def places(self) -> list[tuple[Topic, Any]]:
        return [(self.topic, self.log)]


@pytest.fixture
def partition(tmp_path: Path) -> Iterator[Partition]:
    partition = Partition(tmp_path)
    yield partition
    partition.logs.commit.stop()
    partition.logs.turn.poll_synced()


def test_streams_are_made_from_the_log(partition: Partition) -> None:
    offsets = [partition.write(b"a", version) for version in (1, 2, 3)]
    partition.write(b"b", 1)
    saved = partition.write(b"a", 2, b"cursus.snapshot_version")
    partition.write(b"c", 0, b"other")

    async def found() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        assert [await streams.version(key) for key in (b"a", b"b", b"c")] == [3, 1, 0]
        assert (await streams.find(b"a", 3, MANY)).offsets == offsets[2:]
        whole = await streams.find(b"a", 1, MANY)
        assert whole == (3, offsets[2:], Snapshot(2, saved))
        assert await owner.of(partition.topic, partition.log) is streams
        await owner.stop()

    partition.run(found())


def test_events_are_found_before_while_and_after_they_are_filed(partition: Partition) -> None:
    async def appended() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        offsets: list[int] = []
        for version in range(1, 31):
            assert await streams.version(b"k") == version - 1
            offsets.append(partition.append(streams, b"k", version))
            if version % 10 == 0:
                writing = asyncio.ensure_future(owner.cover(partition.places))
                while not writing.done():
                    assert (await streams.find(b"k", 1, MANY)).offsets == offsets
                    await asyncio.sleep(0)
                await writing
                assert streams.heads.recent == {}
            assert (await streams.find(b"k", 1, MANY)).offsets == offsets
            assert (await streams.find(b"k", 1, 5)).offsets == offsets[:6]
        streams.heads.forget_versions(MANY)
        assert await streams.version(b"k") == 30
        await owner.stop()

    partition.run(appended())

    file = StreamFile(partition.logs.folder())
    assert file.versions([b"k"]) == [30]
    assert file.covered().offset == partition.log.log_end_offset
    file.close()


def test_many_streams_are_looked_up_together(partition: Partition) -> None:
    for number in range(50):
        partition.write(b"k%d" % number, 1)

    async def looked_up() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        keys = [b"k%d" % number for number in range(60)]
        found = await asyncio.gather(*(streams.version(key) for key in keys))
        assert found == [1] * 50 + [0] * 10
        await owner.stop()

    partition.run(looked_up())


def test_a_version_that_was_forgotten_meanwhile_is_looked_up_again(partition: Partition) -> None:
    async def raced() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        asked = asyncio.ensure_future(streams.version(b"k"))
        await asyncio.sleep(0)
        partition.append(streams, b"k", 1)
        await owner.cover(partition.places)
        streams.heads.forget_versions(MANY)

        assert await asked == 1
        await owner.stop()

    partition.run(raced())


def test_a_damaged_event_does_not_hide_those_after_it(partition: Partition) -> None:
    for version in (1, 2, 3):
        partition.write(b"k", version)
    [log] = partition.logs.folder().glob("*.log")
    log.write_bytes(log.read_bytes().replace(b"event 2", b"event X"))

    async def found() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        assert await streams.version(b"k") == 3
        with pytest.raises(StorageError, match="of a stream is missing"):
            await streams.find(b"k", 2, MANY)
        assert len((await streams.find(b"k", 3, MANY)).offsets) == 1
        await owner.stop()

    partition.run(found())


def test_a_file_of_another_topic_is_made_anew(partition: Partition) -> None:
    partition.write(b"k", 1)
    file = StreamFile(partition.logs.folder())
    file.begin("another id")
    file.write({b"k": [0, 0, 0]}, {}, 1, 0)
    file.close()

    async def found() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        assert await streams.version(b"k") == 1
        await owner.stop()

    partition.run(found())


def test_appends_wait_while_there_is_no_memory(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "EVENTS_RECENT_BYTES_MAX", 2_000)

    async def full() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        for number in range(50):
            await owner.make_room()
            partition.append(streams, b"key%d" % number, 1)
            assert owner.native.recent_bytes < 2_000 + 400
        await owner.stop()
        assert owner.native.recent_bytes == 0

    partition.run(full())


def test_versions_are_forgotten_above_a_limit_of_memory(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "STREAM_VERSIONS_BYTES_MAX", 2_000)
    monkeypatch.setattr(tables, "STREAM_VERSIONS_FORGOTTEN", 3)

    async def many() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        for number in range(50):
            partition.append(
                streams, b"key%d" % number, await streams.version(b"key%d" % number) + 1
            )
            assert await streams.version(b"key%d" % (number // 2)) == 1
            assert owner.native.known_bytes <= 2_000
        await owner.stop()

    partition.run(many())


def test_a_deleted_topic_takes_no_memory(partition: Partition) -> None:
    async def deleted() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        partition.append(streams, b"k", 1)
        owner.forget_topic("other")
        assert owner.native.recent_bytes > 0
        owner.forget_topic("topic")
        assert (owner.native.recent_bytes, owner.native.known_bytes) == (0, 0)
        assert not streams.is_present
        await owner.stop()

    partition.run(deleted())


def test_a_log_that_fails_before_its_streams_are_filed_is_not_served(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def failed() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        partition.append(streams, b"k", 1)

        def write(*_: object) -> None:
            raise StorageError("no space")

        monkeypatch.setattr(StreamFile, "write", write)
        with pytest.raises(StorageError, match="no space"):
            await owner.cover(partition.places)
        assert not streams.is_present
        with pytest.raises(RequestError):
            await owner.of(partition.topic, partition.log)
        monkeypatch.undo()
        again = await owner.of(partition.topic, partition.log)
        assert await again.version(b"k") == 1
        await owner.stop()

    partition.run(failed())


def test_streams_of_another_epoch_are_read_anew(partition: Partition) -> None:
    lead(partition.log, epoch=1, isr=[LEADER])

    async def led_again() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        partition.append(streams, b"k", 1)
        streams.heads.know(b"k", 7)  # as if another leader had cut events off
        lead(partition.log, epoch=2, isr=[LEADER])
        partition.write(b"k", 2)

        assert not streams.is_present
        again = await owner.of(partition.topic, partition.log)
        assert again is not streams
        assert await again.version(b"k") == 2
        assert (await again.find(b"k", 1, MANY)).offsets == [0, 1]
        await owner.stop()

    partition.run(led_again())


def test_events_of_another_epoch_are_not_filed(
    partition: Partition, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead(partition.log, epoch=1, isr=[LEADER])

    async def lost() -> None:
        owner = EventStreams()
        streams = await owner.of(partition.topic, partition.log)
        partition.append(streams, b"k", 1)
        durable = tables._is_durable

        async def slow(log: Any, end: int) -> bool:
            found = await durable(log, end)
            if streams.filing:
                lead(partition.log, epoch=2, isr=[LEADER])
            return found

        monkeypatch.setattr(tables, "_is_durable", slow)
        with pytest.raises(StorageError, match="failed before its streams were written"):
            await owner.cover(partition.places)
        monkeypatch.undo()
        assert owner.native.recent_bytes == 0
        assert await (await owner.of(partition.topic, partition.log)).version(b"k") == 1
        await owner.stop()

    partition.run(lost())
