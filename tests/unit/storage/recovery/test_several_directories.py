"""Partitions in several directories, from start to start, with one of them missing or failing."""

import errno
import shutil
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.model.identifiers import random_id
from broker.model.log_results import AppendStatus
from broker.segments import text_files
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
        (path / text_files.META_PROPERTIES).touch()
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


def test_partitions_of_a_missing_directory_keep_their_recovery_points(disks: list[Path]) -> None:
    written(disks).stop()
    without = run_on(disks, {disks[1]: "it is gone"})
    without.open(count=4)

    planned = without.partitions.plan_checkpoint()
    without.partitions.forget("topic", [0])  # and a new log of its name is made meanwhile
    without.partitions.open_topic("topic", random_id(), [0], CONFIG)
    without.partitions.write_checkpoint(planned)

    points = text_files.read_offsets(disks[0] / text_files.RECOVERY_POINTS)
    assert (points["topic", 1], points["topic", 3]) == (1, 1)
    without.kill()


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


def test_a_topic_that_a_directory_could_not_take_is_made_elsewhere(disks: list[Path]) -> None:
    broker = run_on(disks)
    file_ops.start_recording()
    for operation in ("list_folder", "open"):
        file_ops.fail(operation, f"{disks[1]}/*", errno.EIO, times=100)

    with pytest.raises(StorageError):
        broker.make(count=2)

    logs = broker.make(count=2)
    file_ops.stop_recording()
    assert [Path(log.folder).parent for log in logs] == [disks[0]] * 2
    broker.kill()


def test_a_full_directory_refuses_the_records_of_its_own_partitions(disks: list[Path]) -> None:
    broker = run_on(disks)
    logs = broker.make(count=4)
    broker.partitions.other_disks[disks[1]].refuses_clients = True

    statuses = [log.append(BATCH).status for log in logs]

    appended, full = AppendStatus.APPENDED, AppendStatus.LOG_FULL
    assert statuses == [appended, full, appended, full]
    broker.kill()


def test_a_topic_is_made_elsewhere_after_its_directory_has_gone(disks: list[Path]) -> None:
    directories = Directories(disks[0], disks[1:])
    broker = BrokerRun(disks[0], directories=directories)
    directories.prefer("topic-0", disks[1])
    shutil.rmtree(disks[1])

    with pytest.raises(StorageError, match="second"):
        broker.make()
    [log] = broker.make()

    assert log.folder == str(disks[0] / "topic-0")
    broker.stop()


def test_a_partition_is_not_made_where_another_disk_is_by_now(disks: list[Path]) -> None:
    broker = written(disks)
    disks[1].rename(disks[1].with_name("elsewhere"))
    disks[1].mkdir()  # as a disk that is not mounted any more

    with pytest.raises(StorageError, match="is the disk mounted"):
        broker.partitions.open_topic("new", random_id(), range(2), CONFIG)

    assert list(disks[1].iterdir()) == []
    assert not (disks[0] / "new-0").exists()
    broker.kill()


def test_a_partition_that_a_failed_disk_keeps_is_not_made_on_another_one(disks: list[Path]) -> None:
    directories = Directories(disks[0], disks[1:])
    broker = BrokerRun(disks[0], directories=directories)
    [first, second] = broker.make(count=2)
    assert Path(second.folder).parent == disks[1]
    file_ops.start_recording()
    file_ops.fail("write", f"{disks[1]}/*", errno.EIO, times=1_000_000)
    directories.check([Path(second.folder)])
    for log in (first, second):
        log.take_offline("for this test")
        broker.partitions.abandon(log)
        broker.partitions.forget_moved("topic", log.partition)
    file_ops.stop_recording()

    logs = broker.partitions.announce_topic("topic", TOPIC_ID, range(2), CONFIG)

    assert [log.folder for log in logs] == [first.folder, second.folder]
    assert broker.partitions.load(logs[0]) is None
    assert broker.partitions.load(logs[1]) is not None
    broker.kill()
