"""Native appends to streams that are in the file only: what Python looks up for them, and how."""

import asyncio
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker._native.protocols.cursus.produce import HAS_STREAMS
from broker._native.protocols.cursus.protocol import Cursus
from broker.protocols.cursus.event_streams import partition_streams
from broker.protocols.cursus.event_streams.file import DamagedFileError, StreamFile
from broker.protocols.cursus.event_streams.partition_streams import PartitionStreams
from broker.protocols.cursus.event_streams.tables import EventStreams
from tests.support.native_replica import LEADER, lead
from tests.support.native_wire import Client, Wire
from tests.unit.protocols.cursus.event_streams.partitions import (
    WAIT_SECONDS,
    HeldInThread,
    Partition,
)

MANY = 1_000


def append(key: bytes, version: int) -> bytes:
    """Return the frame of an append."""
    body = b"APPEND_STREAM topic=topic key=%s version=%d message=m" % (key, version)
    return struct.pack(">I", len(body)) + body


class Appends:
    """Connections that append to one partition; what Python would have to serve is in `slow`."""

    def __init__(self, partition: Partition) -> None:
        """Serve the partition; its streams are not loaded yet."""
        self.partition = partition
        self.log = partition.log
        self.log.configure(is_plain=False, is_group_commit=False, protocol_flags=HAS_STREAMS)
        self.wire = Wire(partition.logs)
        self.wire.serve(self.log)
        self.slow = self.wire.slow
        self.owner = EventStreams()
        protocols = {"cursus": Cursus(None, streams=self.owner.native)}
        self.wire.poller.serve_with(protocols, self.slow.extend, lambda *_: None)

    async def load(self) -> PartitionStreams:
        """Have the streams of the partition be served."""
        return await self.owner.of(self.partition.topic, self.log)

    def send(self, key: bytes, version: int, client: Client | None = None) -> Client:
        """Send an append, over a new connection unless one is given."""
        client = client or self.wire.connect()
        client.send(append(key, version))
        return client

    async def answer(self, client: Client) -> bytes:
        """Return the next answer that a connection gets, and the only one."""
        [answer] = await self.answers(client)
        return answer

    async def answers(self, client: Client) -> list[bytes]:
        """Return the next answers that a connection gets."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not (frames := client.frames()):
                assert not self.slow, "it was left to Python"
                self.wire.run()
                await asyncio.sleep(0.001)
        return [frame[4:] for frame in frames]

    async def left_to_python(self) -> None:
        """Wait until a request is left to Python, and drop it: its connection closes."""
        async with asyncio.timeout(WAIT_SECONDS):
            while not self.slow:
                self.wire.run()
                await asyncio.sleep(0.001)
        self.slow.pop()


@pytest.fixture
def appends(partition: Partition) -> Iterator[Appends]:
    appends = Appends(partition)
    yield appends
    appends.wire.close()


def versions_that_are_read(monkeypatch: pytest.MonkeyPatch) -> list[list[bytes]]:
    """Note the keys of each look into the file."""
    read: list[list[bytes]] = []
    versions = StreamFile.versions

    def noted(file: StreamFile, keys: list[bytes]) -> list[int]:
        read.append(sorted(keys))
        return versions(file, keys)

    monkeypatch.setattr(StreamFile, "versions", noted)
    return read


def test_streams_in_the_file_are_looked_up_together_and_appended_to_natively(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, version in ((b"a", 1), (b"b", 1), (b"a", 2)):
        appends.partition.write(key, version)
    read = versions_that_are_read(monkeypatch)

    async def appended() -> None:
        streams = await appends.load()
        clients = [appends.send(*each) for each in ((b"a", 3), (b"b", 2), (b"c", 1))]
        answers = [await appends.answer(each) for each in clients]
        assert sorted(answers) == [
            b"OK version=1 offset=5 partition=0",
            b"OK version=2 offset=4 partition=0",
            b"OK version=3 offset=3 partition=0",
        ]
        assert read == [[b"a", b"b", b"c"]]
        assert streams.heads.versions == {b"a": 3, b"b": 2, b"c": 1}
        appends.send(b"a", 4, clients[0])
        assert (await appends.answer(clients[0])).startswith(b"OK version=4 ")
        assert len(read) == 1
        await appends.owner.stop()

    appends.partition.run(appended())


def test_the_streams_of_appends_on_their_way_are_looked_up_together(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [b"k%d" % number for number in range(8)]
    for key in keys:
        appends.partition.write(key, 1)
    read = versions_that_are_read(monkeypatch)

    async def appended() -> None:
        await appends.load()
        client = appends.wire.connect()
        client.send(b"".join(append(key, 2) for key in keys))
        answers: list[bytes] = []
        while len(answers) < len(keys):
            answers += await appends.answers(client)
        expected = [b"OK version=2 offset=%d partition=0" % (8 + number) for number in range(8)]
        assert answers == expected
        assert read == [keys]
        await appends.owner.stop()

    appends.partition.run(appended())


def test_no_more_are_looked_up_at_once_than_fit_into_a_step(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_streams, "STREAMS_LOOKED_UP_PER_STATEMENT", 3)
    keys = [b"k%d" % number for number in range(8)]
    for key in keys:
        appends.partition.write(key, 1)
    read = versions_that_are_read(monkeypatch)

    async def appended() -> None:
        await appends.load()
        for client in [appends.send(key, 2) for key in keys]:
            assert (await appends.answer(client)).startswith(b"OK version=2 ")
        assert read == [keys[:3], keys[3:6], keys[6:]]
        await appends.owner.stop()

    appends.partition.run(appended())


def test_new_streams_are_not_looked_up_once_all_keys_have_been_read(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = versions_that_are_read(monkeypatch)

    async def appended() -> None:
        streams = await appends.load()
        client = appends.send(b"a", 1)
        assert (await appends.answer(client)).startswith(b"OK version=1 ")
        while not streams.heads.keys.is_new(b"b"):
            await asyncio.sleep(0.001)
        appends.send(b"b", 1, client)
        assert (await appends.answer(client)).startswith(b"OK version=1 ")
        assert read == [[b"a"]]
        await appends.owner.stop()

    appends.partition.run(appended())


def test_events_on_their_way_to_the_file_count(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def appended() -> None:
        streams = await appends.load()
        for key in (b"a", b"b"):
            appends.partition.append(streams, key, 1)
        held = HeldInThread(monkeypatch, "covered")
        blocked = asyncio.ensure_future(appends.owner.in_file(streams.folder, StreamFile.covered))
        await held.wait()
        writing = asyncio.ensure_future(appends.owner.cover(appends.partition.places))
        while not streams.filing:
            await asyncio.sleep(0.001)
        appends.partition.append(streams, b"b", 2)
        streams.heads.forget_versions(MANY)
        clients = [appends.send(b"a", 2), appends.send(b"b", 3)]
        assert (await appends.answer(clients[0])).startswith(b"OK version=2 ")
        assert (await appends.answer(clients[1])).startswith(b"OK version=3 ")
        held.go_on()
        await asyncio.gather(blocked, writing)
        await appends.owner.stop()

    appends.partition.run(appended())


def test_a_lookup_from_before_a_write_of_the_file_decides_nothing(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldInThread(monkeypatch, "versions")

    async def raced() -> None:
        streams = await appends.load()
        appends.send(b"a", 1)
        await held.wait()
        streams.filed += 1
        held.go_on()
        await appends.left_to_python()
        assert streams.heads.versions == {}
        assert appends.log.log_end_offset == 0
        await appends.owner.stop()

    appends.partition.run(raced())


def test_an_event_that_came_while_the_file_was_read_counts(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldInThread(monkeypatch, "versions")

    async def raced() -> None:
        streams = await appends.load()
        client = appends.send(b"a", 2)
        await held.wait()
        appends.partition.append(streams, b"a", 1)
        held.go_on()
        assert (await appends.answer(client)).startswith(b"OK version=2 ")
        await appends.owner.stop()

    appends.partition.run(raced())


def test_a_conflict_is_left_to_python(appends: Appends) -> None:
    appends.partition.write(b"a", 1)

    async def refused() -> None:
        await appends.load()
        appends.send(b"a", 1)
        await appends.left_to_python()
        await appends.owner.stop()

    appends.partition.run(refused())


def test_appends_are_left_to_python_while_the_log_moves(
    appends: Appends, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There the wait for the end of the move has a limit, and its error."""
    appends.partition.write(b"a", 1)

    async def moving() -> None:
        await appends.load()
        monkeypatch.setattr(partition_streams, "STREAMS_LOAD_WAIT_SECONDS", 2 * WAIT_SECONDS)
        (tmp_path / "other").mkdir()
        async with appends.owner.moving(appends.partition.topic, appends.log, tmp_path / "other"):
            appends.send(b"a", 2)
            await appends.left_to_python()
        await appends.owner.stop()

    appends.partition.run(moving())


def test_appends_are_left_to_python_if_the_file_is_damaged(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldInThread(monkeypatch, "versions")
    held.error = DamagedFileError("malformed")

    async def damaged() -> None:
        await appends.load()
        clients = [appends.send(b"a", 1)]
        await held.wait()
        clients.append(appends.send(b"b", 1))
        held.go_on()
        await appends.left_to_python()
        await appends.left_to_python()
        await appends.owner.stop()

    appends.partition.run(damaged())


def test_appends_are_left_to_python_if_another_epoch_has_begun(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead(appends.log, epoch=1, isr=[LEADER])
    held = HeldInThread(monkeypatch, "versions")

    async def led() -> None:
        streams = await appends.load()
        appends.send(b"a", 1)
        await held.wait()
        lead(appends.log, epoch=2, isr=[LEADER])
        held.go_on()
        await appends.left_to_python()
        assert streams.heads.versions == {}
        await appends.owner.stop()

    appends.partition.run(led())


def test_appends_are_left_to_python_if_their_lookups_end_for_another_reason(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldInThread(monkeypatch, "versions")

    async def stopped() -> None:
        await appends.load()
        appends.send(b"a", 1)
        await held.wait()
        appends.send(b"b", 1)
        held.go_on()
        await appends.owner.stop()
        for _ in range(2):
            await appends.left_to_python()
        appends.send(b"c", 1)
        assert len(appends.slow) == 1  # nobody looks it up any more

    appends.partition.run(stopped())


def test_a_failed_task_of_lookups_is_followed_by_another(
    appends: Appends, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures: list[Any] = []

    async def failed() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, what: failures.append(what))
        await appends.load()
        with monkeypatch.context() as patched:
            patched.setattr(StreamFile, "versions", lambda *_, **__: 1 / 0)
            appends.send(b"a", 1)
            await appends.left_to_python()
        client = appends.send(b"a", 1)
        assert (await appends.answer(client)).startswith(b"OK version=1 ")
        await appends.owner.stop()

    appends.partition.run(failed())
