"""A topic that one broker deletes: every broker removes its folders, and confirms that."""

import asyncio
import errno
from collections import deque
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.core.topics import deletion
from broker.core.topics.rules import NewPartitions, NewTopic
from broker.core.topics.topic import Topic
from broker.model.errors import StorageError
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from broker.storage.metadata import Delete, deleted_topic_key
from tests.support.fakes import FakeBroker, FakeFolders
from tests.support.memory_cluster import Led, MemoryCluster, MemoryMetadata, catch_up
from tests.unit.core.logs.test_native_log import NativeBroker

PLACED = {0: [1], 1: [2], 2: [1], 3: [2]}
AT_ONCE = {"file.delete.delay.ms": "0"}


def create(broker: FakeBroker) -> Topic:
    return asyncio.run(broker.topics.create(NewTopic("a", assignments=PLACED, config=AT_ONCE)))


def delete(broker: FakeBroker, topic: Topic) -> None:
    async def scenario() -> None:
        await broker.topics.delete(topic)
        await until_removed(broker)

    asyncio.run(asyncio.wait_for(scenario(), 60))


async def until_removed(broker: FakeBroker) -> None:
    """Wait until the broker has nothing to remove now."""
    removing = broker.deletions._removing
    while removing is not None and not removing.done():
        await asyncio.sleep(0.001)


def follow(broker: FakeBroker, topic: Topic) -> None:
    """Let a broker follow the topic's deletion by another one."""

    async def scenario() -> None:
        catch_up(broker)
        await broker.topics.follow(topic.name)
        await broker.topics.follow_deleted(topic.topic_id)
        await until_removed(broker)

    asyncio.run(asyncio.wait_for(scenario(), 60))


def pending(cluster: MemoryCluster) -> list[tuple[int, ...] | None]:
    return [each.pending for each in cluster.deleted()]


def test_each_broker_confirms_for_itself_that_it_has_no_folders() -> None:
    cluster = MemoryCluster(1, 2)
    first, second = cluster.broker(1), cluster.broker(2)
    topic = create(first)
    catch_up(second)
    asyncio.run(second.topics.follow("a"))

    delete(first, topic)
    assert pending(cluster) == [(2,)]

    follow(second, topic)
    assert pending(cluster) == [()]
    assert second.topics.get("a") is None
    assert second.folders.put_aside == [("a", [0, 1, 2, 3])]


def test_a_confirmation_that_comes_second_is_made_again() -> None:
    cluster = MemoryCluster(1, 2)
    first, second = cluster.broker(1), cluster.broker(2)
    topic = create(first)

    async def both() -> None:
        await first.topics.delete(topic)
        catch_up(second)
        await second.topics.follow_deleted(topic.topic_id)
        await until_removed(first)
        await until_removed(second)

    asyncio.run(asyncio.wait_for(both(), 60))

    assert pending(cluster) == [()]


def test_a_broker_without_replicas_of_a_deleted_topic_confirms_nothing() -> None:
    cluster = MemoryCluster(1, 2, 3)
    first, third = cluster.broker(1), cluster.broker(3)
    topic = create(first)
    catch_up(third)
    asyncio.run(third.topics.follow("a"))

    delete(first, topic)
    follow(third, topic)

    assert pending(cluster) == [(2,)]


def test_a_topic_deleted_before_a_broker_has_followed_its_creation_is_confirmed() -> None:
    cluster = MemoryCluster(1, 2)
    first, second = cluster.broker(1), cluster.broker(2)
    topic = create(first)
    delete(first, topic)

    follow(second, topic)

    assert pending(cluster) == [()]


def test_an_unavailable_store_delays_a_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "DELETION_RETRY_SECONDS", 0.01)
    cluster = MemoryCluster(1, 2)
    first = cluster.broker(1)
    topic = create(first)
    known = first.metadata
    assert isinstance(known, MemoryMetadata)

    async def scenario() -> None:
        await first.topics.delete(topic)
        known.is_unavailable = True
        await asyncio.sleep(0.05)
        assert pending(cluster) == [(1, 2)]
        known.is_unavailable = False
        await until_removed(first)

    asyncio.run(asyncio.wait_for(scenario(), 60))

    assert pending(cluster) == [(2,)]


def test_beyond_the_limit_of_waiting_topics_an_unavailable_store_is_asked_no_more_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deletion, "DELETED_TOPICS_WAITING_MAX", 0)
    monkeypatch.setattr(deletion, "DELETION_RETRY_SECONDS", 60)
    first = MemoryCluster(1, 2).broker(1)
    topic = create(first)
    known = first.metadata
    attempts = 0

    async def transact(_guards: object, _operations: object) -> None:
        nonlocal attempts
        attempts += 1
        await asyncio.sleep(0)
        raise StorageError("the store does not answer")

    async def scenario() -> None:
        await first.topics.delete(topic)
        monkeypatch.setattr(known, "transact", transact)
        while not attempts:
            await asyncio.sleep(0.001)
        for _ in range(100):
            await asyncio.sleep(0)

    asyncio.run(asyncio.wait_for(scenario(), 60))

    assert attempts == 1


class BrokenFolders(FakeFolders):
    """The folders of some topics cannot be removed."""

    broken: frozenset[str] = frozenset()

    def remove_some(self, folders: deque[Path]) -> None:
        if folders[0].name.split("-")[0] in self.broken:
            raise StorageError("input/output error")
        super().remove_some(folders)


def test_a_topic_whose_folders_stay_does_not_keep_others_from_being_confirmed() -> None:
    cluster = MemoryCluster(1)
    broker = cluster.broker(1)
    folders = broker.deletions._folders = BrokenFolders()
    folders.broken = frozenset(["bad"])
    topics = [broker.create(name, config=AT_ONCE) for name in ("bad", "good")]

    for each in topics:
        delete(broker, each)

    assert {each.name: each.pending for each in cluster.deleted()} == {"bad": (1,), "good": ()}


def test_partitions_without_a_log_are_forgotten_too() -> None:
    """A later topic of that name must not find the offsets of a log that was released."""
    cluster = MemoryCluster(1, 2)
    first = cluster.broker(1)

    delete(first, create(first))

    assert first.forgotten_logs == [("a", 1), ("a", 3)]


def test_partitions_added_just_before_the_deletion_are_removed_too() -> None:
    cluster = MemoryCluster(1, 2)
    first, second = cluster.broker(1), cluster.broker(2)
    topic = create(first)
    catch_up(second)
    asyncio.run(second.topics.follow("a"))
    asyncio.run(first.topics.add_partitions(topic, NewPartitions(5, [[2]])))
    delete(first, topic)

    follow(second, topic)

    assert second.folders.put_aside == [("a", [0, 1, 2, 3, 4])]


def test_a_topic_whose_record_is_gone_is_not_removed_while_it_is_followed() -> None:
    cluster = MemoryCluster(1, 2)
    first, second = cluster.broker(1), cluster.broker(2)
    placed = NewTopic("a", assignments={0: [1]}, config=AT_ONCE)
    topic = asyncio.run(first.topics.create(placed))
    catch_up(second)
    asyncio.run(second.topics.follow("a"))
    delete(first, topic)
    cluster.store.transact([], [Delete(deleted_topic_key(topic.topic_id))])
    catch_up(second)

    async def scenario() -> None:
        async with second.topics._local._lock("a"):
            following = asyncio.ensure_future(second.topics.follow_deleted(topic.topic_id))
            for _ in range(10):
                await asyncio.sleep(0)
            assert second.topics.get("a") is not None
        await following
        assert second.topics.get("a") is None

    asyncio.run(scenario())


def test_a_topic_whose_logs_are_loading_is_removed_once_they_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = MemoryCluster(1, 2)
    first, second = cluster.broker(1), cluster.broker(2)
    topic = create(second)
    log = topic.logs[1]
    assert log is not None
    catch_up(first)
    asyncio.run(first.topics.follow("a"))
    delete(first, first.topics.get("a"))  # type: ignore[arg-type]
    log.is_loading = True  # type: ignore[misc]
    deleted_while_loading: list[bool] = []

    async def until_loaded(logs: object) -> None:
        await asyncio.sleep(0)
        log.is_loading = False  # type: ignore[misc]

    monkeypatch.setattr(second, "until_loaded", until_loaded)
    monkeypatch.setattr(
        second, "delete_log", lambda each: deleted_while_loading.append(each.is_loading)
    )
    follow(second, topic)

    assert deleted_while_loading == [False, False]


# ---- with files


def folders(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


def owner(path: Path, folder: str) -> bytes | None:
    return text_files.read_partition_metadata(path / folder)


async def started(broker: NativeBroker) -> None:
    """Load what is there, as a start does before it is a member, and wait for all removals."""
    assert isinstance(broker.leadership, Led)
    broker.leadership.is_member = False
    broker.topics.load()
    broker.deletions.remove(broker.partitions.rename_strays(broker.topics.id_of_partition))
    await until_removed(broker)
    broker.leadership.is_member = True
    await broker.topics.follow("a")


def test_a_broker_that_was_down_removes_the_folders_of_a_deleted_topic(tmp_path: Path) -> None:
    cluster = MemoryCluster(1, 2)
    down = cluster.native(2, tmp_path)
    create(down)
    down.close()
    first = cluster.broker(1)
    first.topics.load()
    delete(first, first.topics.get("a"))  # type: ignore[arg-type]
    assert folders(tmp_path) == ["a-1", "a-3"]

    again = cluster.native(2, tmp_path)
    asyncio.run(asyncio.wait_for(started(again), 60))

    assert (folders(tmp_path), pending(cluster)) == ([], [()])
    again.close()


def test_a_topic_created_again_while_a_broker_was_down_keeps_its_own_folders(
    tmp_path: Path,
) -> None:
    cluster = MemoryCluster(1, 2)
    down = cluster.native(2, tmp_path)
    old = create(down)
    down.close()
    first = cluster.broker(1)
    first.topics.load()
    delete(first, first.topics.get("a"))  # type: ignore[arg-type]
    new = create(first)
    assert new.topic_id != old.topic_id

    again = cluster.native(2, tmp_path)
    asyncio.run(asyncio.wait_for(started(again), 60))
    log = again.log("a", 1)

    assert folders(tmp_path) == ["a-1", "a-3"]
    assert owner(tmp_path, "a-1") == new.topic_id
    assert log.log_end_offset == 0
    assert pending(cluster) == [()]
    again.close()


def test_folders_of_another_topic_of_the_same_name_without_a_record_become_strays(
    tmp_path: Path,
) -> None:
    """Nothing records the deletion any more: the files may be the last copy of something."""
    cluster = MemoryCluster(1, 2)
    broker = cluster.native(2, tmp_path)
    topic = create(broker)  # of partitions 1 and 3
    stale = tmp_path / "a-0"
    stale.mkdir()
    checkpoint.write_partition_metadata(stale, b"another topic id")
    ours = tmp_path / "a-2"
    ours.mkdir()
    checkpoint.write_partition_metadata(ours, topic.topic_id)
    (tmp_path / "gone-0").mkdir()
    broker.close()

    again = cluster.native(2, tmp_path)
    asyncio.run(asyncio.wait_for(started(again), 60))

    assert folders(tmp_path) == ["a-0.0-stray", "a-1", "a-2", "a-3", "gone-0.0-stray"]
    again.close()


def test_a_rename_that_fails_is_finished_by_the_next_start(tmp_path: Path) -> None:
    cluster = MemoryCluster(1, 2)
    broker = cluster.native(2, tmp_path)
    topic = create(broker)
    file_ops.start_recording()
    file_ops.fail("rename", "a-3", errno.EIO)
    delete(broker, topic)
    file_ops.stop_recording()
    assert pending(cluster) == [(1, 2)]
    broker.close()

    again = cluster.native(2, tmp_path)
    asyncio.run(asyncio.wait_for(started(again), 60))

    assert (folders(tmp_path), pending(cluster)) == ([], [(1,)])
    again.close()
