"""A deleted topic stays deleted whatever happens, and its files are removed."""

import asyncio
import errno
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.core.cluster.slices import complete
from broker.core.metadata import OwnMetadata
from broker.core.scheduling.io_thread import IoThread
from broker.core.topics import deletion
from broker.core.topics.deletion import Deletions
from broker.core.topics.placing import Standalone
from broker.core.topics.records import DeletedTopic
from broker.storage import metadata
from tests.support.fakes import FakeFolders, FakeStore
from tests.unit.core.logs.test_native_log import NativeBroker, produce, records

PARTITIONS = 3


@pytest.fixture
def recording() -> Iterator[None]:
    """Record the file operations of one test."""
    file_ops.start_recording()
    yield
    file_ops.stop_recording()


class Clocked:
    """Deletions with folders that exist only as names."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.folders = FakeFolders()
        self.metadata = OwnMetadata(self.store, IoThread())
        self.deletions = Deletions(self.metadata, IoThread(), self.folders, Standalone(1))

    def topic(self, name: str, partitions: int = 1) -> DeletedTopic:
        """Return a topic that is recorded as deleted."""
        topic = DeletedTopic(name, name.encode().ljust(16), partitions)
        key = metadata.deleted_topic_key(topic.topic_id)
        value = b'{"version": 1, "name": "%s", "partitions": %d}' % (name.encode(), partitions)
        put = metadata.Put(key, value)
        assert self.store.transact([], [put]) is not None
        complete(self.metadata.image.load(*self.store.scan(b"")))
        return topic

    async def until_forgotten(self) -> None:
        """Wait until nothing is recorded any more."""
        while self.store.values:
            await asyncio.sleep(0.001)


def test_the_deletion_record_is_removed_once_the_folders_are_gone() -> None:
    fakes = Clocked()

    async def scenario() -> None:
        await fakes.deletions.put_away(fakes.topic("a", 5), 0)
        await fakes.until_forgotten()

    asyncio.run(asyncio.wait_for(scenario(), 60))

    assert fakes.folders.put_aside == [("a", [0, 1, 2, 3, 4])]


def test_the_deletion_record_stays_for_the_next_start_if_a_directory_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fakes = Clocked()
    monkeypatch.setattr(FakeFolders, "is_complete", False)

    async def scenario() -> None:
        await fakes.deletions.put_away(fakes.topic("a", 5), 0)
        removing = fakes.deletions._removing
        assert removing is not None
        await removing

    asyncio.run(asyncio.wait_for(scenario(), 60))

    assert fakes.store.values


def test_many_folders_are_renamed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "FOLDERS_RENAMED_PER_STEP", 4)
    fakes = Clocked()

    asyncio.run(fakes.deletions.put_away(fakes.topic("a", 10), 60_000))

    assert [partitions for _, partitions in fakes.folders.put_aside] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
        [8, 9],
    ]


def test_files_are_removed_after_their_own_delay() -> None:
    fakes = Clocked()

    async def scenario() -> None:
        await fakes.deletions.put_away(fakes.topic("later"), 600_000)
        await fakes.deletions.put_away(fakes.topic("now"), 0)
        while len(fakes.store.values) > 1:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(scenario(), 60))

    (key,) = fakes.store.values
    assert key == metadata.deleted_topic_key(b"later".ljust(16))


@pytest.mark.parametrize("is_before", [True, False])
def test_with_little_disk_space_files_are_removed_without_the_delay(is_before: bool) -> None:
    fakes = Clocked()

    async def scenario() -> None:
        if is_before:
            fakes.deletions.set_urgent(is_urgent=True)
        await fakes.deletions.put_away(fakes.topic("a"), 600_000)
        fakes.deletions.set_urgent(is_urgent=True)
        await fakes.until_forgotten()

    asyncio.run(asyncio.wait_for(scenario(), 60))


def test_beyond_the_limit_of_waiting_topics_the_delay_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deletion, "DELETED_TOPICS_WAITING_MAX", 2)
    fakes = Clocked()

    async def scenario() -> None:
        for name in "abcd":
            await fakes.deletions.put_away(fakes.topic(name), 600_000)
        while len(fakes.store.values) > 2:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(scenario(), 60))

    assert len(fakes.store.values) == 2


def test_a_start_renames_recorded_folders_and_removes_them_without_delay() -> None:
    fakes = Clocked()
    fakes.topic("a", 2)

    async def scenario() -> None:
        fakes.deletions.resume(lambda _: False)
        assert fakes.folders.put_aside == [("a", [0, 1])]
        await fakes.until_forgotten()

    asyncio.run(asyncio.wait_for(scenario(), 60))


class WatchedFolders(FakeFolders):
    """Records the operations on folders in order."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[str] = []

    def put_away(
        self, topic: str, topic_id: bytes, partitions: Iterable[int], *, is_name_taken: bool
    ) -> None:
        self.steps.append(f"rename {topic}")
        super().put_away(topic, topic_id, partitions, is_name_taken=is_name_taken)

    def sync(self) -> None:
        self.steps.append("sync")

    def remove_some(self, folders: deque[Path]) -> None:
        self.steps.append("remove")
        super().remove_some(folders)


def test_a_start_makes_its_renames_durable_before_removing_anything() -> None:
    """A power cut between both would else bring a folder back under the topic's name."""
    fakes = Clocked()
    folders = WatchedFolders()
    deletions = Deletions(fakes.metadata, IoThread(), folders, Standalone(1))
    fakes.topic("a")
    fakes.topic("b")

    async def scenario() -> None:
        deletions.resume(lambda _: False)
        assert folders.steps == ["rename a", "rename b", "sync"]
        await fakes.until_forgotten()

    asyncio.run(asyncio.wait_for(scenario(), 60))

    assert folders.steps == ["rename a", "rename b", "sync", "remove", "remove"]


def test_a_start_without_recorded_deletions_syncs_nothing() -> None:
    folders = WatchedFolders()

    known = OwnMetadata(FakeStore(), IoThread())
    Deletions(known, IoThread(), folders, Standalone(1)).resume(lambda _: False)

    assert folders.steps == []


def folders(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir() if entry.is_dir())


async def restarted(fakes: NativeBroker, path: Path) -> None:
    """Load what is there, and wait until all deletes are finished."""
    fakes.topics.load()
    fakes.deletions.remove(fakes.partitions.rename_strays())
    while fakes.native_store.scan(metadata.DELETED_TOPICS)[0] or any(
        name.endswith("-delete") for name in folders(path)
    ):
        await asyncio.sleep(0.001)


# The steps of a delete in order: which operation fails, on which path, after how many others.
STEPS = [
    *[("rename", "a-", count) for count in range(PARTITIONS)],
    ("sync_folder", "", 0),
    *[("remove", "-delete", count) for count in range(PARTITIONS * 3)],
]


@pytest.mark.parametrize(("op", "part", "after"), STEPS)
def test_a_delete_interrupted_at_any_step_is_finished_by_the_next_start(
    tmp_path: Path, op: str, part: str, after: int
) -> None:
    fakes = NativeBroker(tmp_path)
    old_id = fakes.create("a", PARTITIONS, {"file.delete.delay.ms": "0"}).topic_id
    produce(fakes, records(3))
    file_ops.start_recording()
    file_ops.fail(op, part, errno.EIO, after, times=1_000)

    async def delete() -> None:
        topic = fakes.topics.get("a")
        assert topic is not None
        await fakes.topics.delete(topic)
        await asyncio.sleep(0.05)  # the removal goes as far as it can

    asyncio.run(delete())
    file_ops.stop_recording()
    fakes.commit.stop()
    fakes.native_store.close()

    again = NativeBroker(tmp_path)
    asyncio.run(asyncio.wait_for(restarted(again, tmp_path), 60))
    assert again.topics.get("a") is None
    assert folders(tmp_path) == []
    new_id = again.create("a", PARTITIONS).topic_id
    assert new_id != old_id
    assert again.log("a").log_end_offset == 0
    assert folders(tmp_path) == [f"a-{number}" for number in range(PARTITIONS)]
    again.close()


def test_a_topic_recreated_after_a_delete_whose_rename_failed_has_no_old_bytes(
    tmp_path: Path, recording: None
) -> None:
    fakes = NativeBroker(tmp_path)
    fakes.create("a")
    produce(fakes, records(3))
    file_ops.fail("rename", "a-0", errno.EIO)
    topic = fakes.topics.get("a")
    assert topic is not None

    asyncio.run(fakes.topics.delete(topic))
    fakes.create("a")

    assert fakes.log("a").log_end_offset == 0
    fakes.close()
