"""Partitions in several directories, from start to start, with one of them missing or failing."""

import errno
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.identifiers import random_id
from broker.storage.checkpoints import checkpoint
from broker.storage.directories import Directories
from broker.storage.files.deletion import DeletedFolders
from broker.storage.recovery import syncing
from tests.unit.storage.broker_run import BATCH, CONFIG, TOPIC_ID, BrokerRun

GIB = 1 << 30


@pytest.fixture(autouse=True)
def equal_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give all directories the same free bytes."""
    monkeypatch.setattr(file_ops, "space", lambda _path: (GIB, GIB, 1 << 20, 1 << 20))


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two empty directories."""
    paths = [tmp_path / name for name in ("first", "second")]
    for path in paths:
        path.mkdir()
    return paths


def run_on(disks: list[Path], missing: dict[Path, str] | None = None) -> BrokerRun:
    """Start on directories, of which some are missing."""
    others = [path for path in disks[1:] if path not in (missing or {})]
    return BrokerRun(disks[0], directories=Directories(disks[0], others, missing))


def written(disks: list[Path], count: int = 4) -> BrokerRun:
    """Start with a new topic that has a record in each partition."""
    broker = run_on(disks)
    for log in broker.make(count=count):
        log.append(BATCH)
    broker.turn.end()
    return broker


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir() if each.is_dir())


def test_a_topic_is_spread_and_its_names_are_durable_in_each_directory(disks: list[Path]) -> None:
    broker = run_on(disks)
    file_ops.start_recording()

    broker.make(count=4)

    synced = {path for op, path, *_ in file_ops.recorded() if op == "sync_folder"}
    file_ops.stop_recording()
    assert [names(path) for path in disks] == [["topic-0", "topic-2"], ["topic-1", "topic-3"]]
    assert {str(path) for path in disks} <= synced
    broker.kill()


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_records_in_every_directory_survive(disks: list[Path], ending: str) -> None:
    broker = written(disks)
    getattr(broker, ending)()

    again = run_on(disks)
    logs = again.open(count=4)

    assert again.partitions.is_clean is (ending == "stop")
    assert [log.log_end_offset for log in logs] == [1] * 4
    again.kill()


def test_partitions_of_a_missing_directory_are_offline_and_come_back(disks: list[Path]) -> None:
    written(disks).stop()

    without = run_on(disks, {disks[1]: "it is gone"})
    logs = without.open(count=4)
    assert [log.is_offline for log in logs] == [False, True, False, True]
    assert logs[0].append(BATCH)[0] == 0
    [made] = without.partitions.open_topic("new", random_id(), [0], CONFIG)
    assert made.folder == str(disks[0] / "new-0")
    without.turn.end()
    without.stop()
    assert names(disks[0]) == ["new-0", "topic-0", "topic-2"]

    again = run_on(disks)
    assert not again.partitions.is_clean
    assert [log.log_end_offset for log in again.open(count=4)] == [2, 1, 1, 1]
    again.kill()


def test_partitions_of_a_directory_that_is_given_up_are_made_anew(disks: list[Path]) -> None:
    written(disks).stop()
    run_on(disks, {disks[1]: "it is gone"}).stop()

    again = run_on(disks[:1])
    logs = again.open(count=4)

    assert [log.log_end_offset for log in logs] == [1, 0, 1, 0]
    assert all(Path(log.folder).parent == disks[0] for log in logs)
    again.kill()


def test_a_topic_that_was_deleted_while_its_directory_was_missing_is_set_aside(
    disks: list[Path],
) -> None:
    written(disks, 2).stop()
    without = run_on(disks, {disks[1]: "it is gone"})
    DeletedFolders(disks[0]).put_away("topic", TOPIC_ID, range(2), is_name_taken=False)
    later = random_id()
    without.make(later, count=2)
    without.stop()

    again = run_on(disks)
    logs = again.open(later, count=2)
    again.partitions.rename_strays(lambda *_: later)

    assert [Path(log.folder).parent for log in logs] == [disks[0]] * 2
    assert [name.endswith("-stray") for name in names(disks[1])] == [True]
    again.kill()


def test_folders_of_deleted_topics_are_renamed_and_removed_in_each_directory(
    disks: list[Path],
) -> None:
    broker = run_on(disks)
    for log in broker.make(count=2):
        broker.partitions.delete(log)
    folders = DeletedFolders(disks[0], others=disks[1:])

    folders.put_away("topic", TOPIC_ID, range(2), is_name_taken=False)
    folders.sync()

    waiting = [each for each in folders.waiting("topic", TOPIC_ID, range(2)) if each.exists()]
    assert [each.parent for each in waiting] == disks
    assert {"topic-0", "topic-1"} & {*names(disks[0]), *names(disks[1])} == set()
    assert sorted(broker.partitions.rename_strays()) == sorted(waiting)
    broker.kill()


def test_a_folder_of_no_topic_is_set_aside_in_its_directory(disks: list[Path]) -> None:
    folder = disks[1] / "unknown-0"
    folder.mkdir()
    checkpoint.write_partition_metadata(folder, random_id())
    broker = run_on(disks)

    broker.partitions.rename_strays()

    assert [name.endswith("-stray") for name in names(disks[1])] == [True]
    broker.kill()


@pytest.mark.parametrize("one_by_one", [True, False])
def test_a_directory_that_cannot_be_synced_fails_its_own_logs_alone(
    disks: list[Path], monkeypatch: pytest.MonkeyPatch, *, one_by_one: bool
) -> None:
    monkeypatch.setattr(syncing, "LOGS_SYNCED_ONE_BY_ONE_MAX", 100 if one_by_one else 0)
    written(disks).kill()
    broker = run_on(disks)
    logs = broker.partitions.announce_topic("topic", TOPIC_ID, range(4), CONFIG)
    assert [broker.partitions.load(log) for log in logs] == [None] * 4
    file_ops.start_recording()
    for operation in ("sync_filesystem", "sync_data", "sync"):
        for _ in range(2):
            file_ops.fail(operation, str(disks[1]), errno.EIO)

    failed = broker.partitions.settle(logs)

    file_ops.stop_recording()
    assert {log.partition for log in failed} == {1, 3}
    broker.kill()
