"""A log moves to another directory while it is appended to and read; every crash leaves all of it.

The loop and the I/O thread are this one thread; what happens at the same time is done in between.
"""

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log import moving
from broker._native.log.partition_log import PartitionLog
from broker.model.errors import DiskFull, StorageError
from broker.model.identifiers import random_id
from broker.storage.checkpoints import checkpoint
from broker.storage.directories import Directories
from broker.storage.files import folder_copy
from broker.storage.files.folder_copy import FolderCopy
from tests.support.batches import batch_of
from tests.unit.storage.broker_run import BATCH, CONFIG, TOPIC_ID, BrokerRun

GIB = 1 << 30
# What a start may find after a crash between two of these.
CHANGES = {"rename", "sync", "sync_folder", "write", "make_folder", "remove"}


@pytest.fixture(autouse=True)
def first_has_more_space(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have new partitions in the first directory."""
    monkeypatch.setattr(
        file_ops,
        "space",
        lambda path: (9 * GIB, 9 * GIB if path.endswith("first") else GIB, 1 << 20, 1 << 20),
    )


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Two empty directories."""
    paths = [tmp_path / name for name in ("first", "second")]
    for path in paths:
        path.mkdir()
    return paths


@pytest.fixture
def broker(disks: list[Path]) -> Iterator[BrokerRun]:
    """A broker with two directories."""
    run = run_on(disks)
    yield run
    file_ops.stop_recording()
    run.kill()


def run_on(disks: list[Path]) -> BrokerRun:
    return BrokerRun(disks[0], directories=Directories(disks[0], disks[1:]))


def on_loop(work: Callable[[], object]) -> object:
    return work()


def made(broker: BrokerRun, segments: int = 3) -> PartitionLog:
    """Make a topic whose one partition has segments with a record each."""
    [log] = broker.make()
    for number in range(segments):
        if number:
            log.roll()
        log.append(BATCH)
    broker.end_sealed(log)
    return log


def copied(log: PartitionLog, directory: Path) -> FolderCopy:
    """Return the whole copy of a log, so far."""
    copy = FolderCopy(log, directory)
    copy.begin()
    copy.resolve()
    finish(copy)
    return copy


def finish(copy: FolderCopy) -> None:
    while copy.step() is not None:
        pass


def offsets(log: PartitionLog) -> int:
    """Return how many records can be read, one after another."""
    offset = log.log_start_offset
    while offset < log.high_watermark:
        data = log.read(offset, 1)
        assert int.from_bytes(data[:8], "big") == offset
        offset += 1
    return offset - log.log_start_offset


def names(path: Path) -> set[str]:
    return {each.name for each in path.iterdir() if each.is_dir()}


def test_a_log_uses_its_copy_and_a_start_finds_it_there(
    broker: BrokerRun, disks: list[Path]
) -> None:
    log = made(broker)
    before = {each.name: each.read_bytes() for each in Path(log.folder).glob("*.log")}
    copy = copied(log, disks[1])
    assert (copy.size, copy.end_offset) == (log.size, 3)

    assert broker.partitions.switch(copy, on_loop)

    folder = disks[1] / "topic-0"
    assert log.folder == str(folder)
    assert {each.name: each.read_bytes()[: len(BATCH)] for each in folder.glob("*.log")} == {
        name: content[: len(BATCH)] for name, content in before.items()
    }
    assert names(disks[0]) == {copy.left.name}
    assert offsets(log) == 3
    log.append(BATCH)
    broker.end_synced(log)
    assert offsets(log) == 4
    broker.stop()

    again = run_on(disks)
    [found] = again.open()
    assert again.partitions.is_clean
    assert (found.folder, offsets(found)) == (str(folder), 4)
    assert again.partitions.rename_strays(lambda *_: TOPIC_ID) == [copy.left]
    again.stop()


def test_what_is_appended_in_every_moment_of_a_switch_is_acknowledged_after_it(
    broker: BrokerRun, disks: list[Path]
) -> None:
    log = made(broker)
    log.append(BATCH)  # staged
    copy = copied(log, disks[1])
    watermarks = []

    def busy_loop(work: Callable[[], object]) -> object:
        result = work()
        if log.is_switching:
            watermarks.append(log.high_watermark)
            log.append(BATCH)
            if len(watermarks) % 2:
                broker.turn.end()
        return result

    assert broker.partitions.switch(copy, busy_loop)
    end = 4 + len(watermarks)
    assert len(watermarks) >= 4
    assert set(watermarks) == {3}
    assert log.high_watermark == 3
    broker.end_synced(log)

    assert offsets(log) == end == log.high_watermark


def test_a_roll_within_a_switch_is_in_the_new_folder(broker: BrokerRun, disks: list[Path]) -> None:
    log = made(broker)
    copy = copied(log, disks[1])

    def rolls(work: Callable[[], object]) -> object:
        result = work()
        if log.is_switching and log.folder == str(copy.folder):
            log.append(BATCH)
            log.roll()
        return result

    assert broker.partitions.switch(copy, rolls)
    log.append(BATCH)
    broker.end_sealed(log)

    bases = {base for base, _, _ in log.segment_entries}
    assert {int(each.stem) for each in (disks[1] / "topic-0").glob("*.log")} == bases
    assert offsets(log) == log.log_end_offset
    broker.kill()
    again = run_on(disks)
    [found] = again.open()
    assert offsets(found) == log.log_end_offset
    again.kill()


def test_a_log_that_grows_faster_than_it_is_copied_stays_and_is_tried_again(
    broker: BrokerRun, disks: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_copy, "MOVE_TAIL_BYTES_MAX", 0)
    log = made(broker)
    copy = copied(log, disks[1])

    def floods(work: Callable[[], object]) -> object:
        if log.is_switching and work == copy._use:
            log.append(BATCH)
            broker.turn.end()
        return work()

    assert not broker.partitions.switch(copy, floods)
    assert log.folder == str(disks[0] / "topic-0")
    broker.end_synced(log)
    assert offsets(log) == log.log_end_offset

    assert broker.partitions.switch(copy, on_loop)
    assert offsets(log) == log.log_end_offset


def test_a_reader_continues_in_a_file_that_has_moved(broker: BrokerRun, disks: list[Path]) -> None:
    log = made(broker)
    assert log.read(0, 1)

    assert broker.partitions.switch(copied(log, disks[1]), on_loop)
    shutil.rmtree(disks[0] / next(iter(names(disks[0]))))

    assert offsets(log) == 3


def test_segments_that_retention_drops_meanwhile_leave_the_copy(
    broker: BrokerRun, disks: list[Path]
) -> None:
    log = made(broker)
    copy = copied(log, disks[1])
    log.move_log_start(2)
    assert log.drop_segments(10) == [0, 1]

    assert broker.partitions.switch(copy, on_loop)

    assert copy.size == len(BATCH)
    assert log.disk is broker.partitions.other_disks[disks[1]]
    assert [each.name for each in (disks[1] / "topic-0").glob("*.log")] == [f"{2:020}.log"]


def test_transactions_and_producers_go_on_after_a_move(
    broker: BrokerRun, disks: list[Path]
) -> None:
    [log] = broker.make()

    def batch(sequence: int) -> bytes:
        return batch_of(
            [(b"k", b"v", ())],
            1_700_000_000_000,
            producer_id=5,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )

    log.admit_transaction(5, 0)
    log.append(batch(0))
    broker.end_synced(log)

    assert broker.partitions.switch(copied(log, disks[1]), on_loop)

    assert log.open_transactions == {5: 0}
    log.append(batch(1))
    broker.end_synced(log)
    assert (log.log_end_offset, log.last_stable_offset) == (2, 0)


def test_a_checkpoint_after_a_move_writes_into_the_new_folder(
    broker: BrokerRun, disks: list[Path]
) -> None:
    log = made(broker)
    broker.partitions.write_snapshot(log, *log.producer_snapshot())
    assert broker.partitions.switch(copied(log, disks[1]), on_loop)

    assert broker.partitions.prepare_checkpoint() == {}
    broker.partitions.write_snapshot(log, *log.producer_snapshot())

    there = {each.suffix for each in (disks[1] / "topic-0").iterdir()}
    assert ".snapshot" in there
    assert (disks[1] / "topic-0" / "leader-epoch-checkpoint").exists()


def test_everything_beside_the_segments_moves_with_them(
    broker: BrokerRun, disks: list[Path]
) -> None:
    log = made(broker)
    broker.partitions.write_snapshot(log, *log.producer_snapshot())
    assert broker.partitions.prepare_checkpoint() == {}
    folder = Path(log.folder)
    digest = folder / f"{0:020}.digest"
    digest.write_text("of an earlier check")
    copy = copied(log, disks[1])
    digest.write_text("of a later check")
    (folder / f"{1:020}.log.deleted").write_text("that retention has removed")

    assert broker.partitions.switch(copy, on_loop)

    kept = {each.name for each in copy.left.iterdir()} - {f"{1:020}.log.deleted"}
    assert {".index", ".timeindex", ".snapshot", ".digest"} <= {Path(each).suffix for each in kept}
    moved = {each.name: each.read_bytes() for each in (disks[1] / "topic-0").iterdir()}
    assert moved.keys() == kept
    for name in kept:
        if not name.endswith(".log"):
            assert moved[name] == (copy.left / name).read_bytes(), name


def test_a_folder_of_the_same_name_is_in_the_way(broker: BrokerRun, disks: list[Path]) -> None:
    log = made(broker)
    (disks[1] / "topic-0").mkdir()

    with pytest.raises(StorageError, match="in the way"):
        FolderCopy(log, disks[1]).begin()

    (disks[1] / "topic-0").rmdir()


@pytest.mark.parametrize("operation", ["write", "sync", "open"])
def test_a_copy_that_cannot_be_written_leaves_the_log_where_it_is(
    broker: BrokerRun, disks: list[Path], operation: str
) -> None:
    log = made(broker)
    copy = FolderCopy(log, disks[1])
    copy.begin()
    file_ops.start_recording()
    file_ops.fail(operation, f"{disks[1]}/*", errno.ENOSPC, times=100)

    with pytest.raises(DiskFull):
        finish(copy)
    file_ops.stop_recording()

    log.append(BATCH)
    broker.end_synced(log)
    assert offsets(log) == 4
    finish(copy)  # there is space again
    assert broker.partitions.switch(copy, on_loop)
    assert offsets(log) == 4


def test_a_log_is_offline_if_it_is_not_known_where_a_start_will_find_it(
    broker: BrokerRun, disks: list[Path]
) -> None:
    log = made(broker)
    copy = copied(log, disks[1])
    file_ops.start_recording()
    file_ops.fail("sync_folder", str(disks[0]), errno.EIO)

    with pytest.raises(StorageError):
        broker.partitions.switch(copy, on_loop)

    file_ops.stop_recording()
    assert log.is_offline
    assert not log.is_switching
    assert copy.is_used
    broker.kill()
    again = run_on(disks)
    [found] = again.open()
    assert offsets(found) == 3
    again.kill()


def replayed(
    operations: list[tuple[str, str, int, int, bytes, int]], source: Path, target: Path
) -> None:
    """Do recorded operations on a copy of the directories."""
    for op, path, position, _, data, result in operations:
        file = target / Path(path).relative_to(source)
        if result < 0:
            continue
        if op == "make_folder":
            file.mkdir(exist_ok=True)
        elif op == "open" and position & os.O_CREAT:
            file.touch()
            if position & os.O_TRUNC:
                os.truncate(file, 0)
        elif op == "write":
            content = file.read_bytes().ljust(position, b"\0")
            file.write_bytes(content[:position] + data + content[position + len(data) :])
        elif op == "rename":
            file.rename(target / Path(data.decode()).relative_to(source))
        elif op == "remove":
            file.rmdir() if file.is_dir() else file.unlink()


def test_after_a_kill_between_any_two_operations_there_is_one_whole_log(
    broker: BrokerRun, disks: list[Path], tmp_path: Path
) -> None:
    log = made(broker, segments=2)
    broker.partitions.write_checkpoint(broker.partitions.plan_checkpoint())
    start = tmp_path / "start"
    start.mkdir()
    for disk in disks:
        shutil.copytree(disk, start / disk.name)
    file_ops.start_recording()
    copy = copied(log, disks[1])

    def busy_loop(work: Callable[[], object]) -> object:
        result = work()
        if log.is_switching:
            log.append(BATCH)
            broker.turn.end()
        return result

    assert broker.partitions.switch(copy, busy_loop)
    operations = [each for each in file_ops.recorded() if each[1].startswith(str(tmp_path))]
    file_ops.stop_recording()
    assert log.high_watermark == 2
    places = set()
    ends = [at for at, each in enumerate(operations, 1) if each[0] in CHANGES]
    for number, end in enumerate([0, *ends]):
        state = tmp_path / f"state {number}"
        shutil.copytree(start, state)
        replayed(operations[:end], tmp_path, state)
        copies = [state / disk.name for disk in disks]
        after = run_on(copies)
        [found] = after.open()
        assert offsets(found) >= 2, operations[end - 1]
        place = Path(found.folder).parent
        places.add(place.name)
        found.append(BATCH)
        after.end_synced(found)
        for doomed in after.partitions.rename_strays(lambda *_: TOPIC_ID):
            shutil.rmtree(doomed)
        assert names(place) == {"topic-0"}
        assert [name for each in copies for name in names(each)] == ["topic-0"]
        after.kill()
        shutil.rmtree(state)
    assert places == {"first", "second"}


def test_an_unfinished_move_is_known_to_the_next_start(
    broker: BrokerRun, disks: list[Path]
) -> None:
    log = made(broker)
    copied(log, disks[1])

    assert Directories(disks[0], disks[1:]).moving == {"topic-0": disks[1]}


def test_a_whole_copy_waits_for_its_missing_directory(broker: BrokerRun, disks: list[Path]) -> None:
    log = made(broker)
    copy = copied(log, disks[1])
    assert broker.partitions.switch(copy, on_loop)
    broker.kill()
    (disks[1] / "topic-0").rename(copy.folder)  # as before the last rename

    without = BrokerRun(disks[0], directories=Directories(disks[0], (), {disks[1]: "it is gone"}))
    [found] = without.open()
    assert found.is_offline
    assert without.partitions.rename_strays(lambda *_: TOPIC_ID) == []
    without.kill()
    assert names(disks[0]) == {copy.left.name}

    again = run_on(disks)
    [found] = again.open()
    assert (Path(found.folder).parent, offsets(found)) == (disks[1], 3)
    again.kill()


def moved_back(disks: list[Path]) -> FolderCopy:
    """Kill a broker right after it has decided for a copy in its first directory."""
    broker = run_on(disks)
    log = made(broker)
    first = copied(log, disks[1])
    assert broker.partitions.switch(first, on_loop)
    shutil.rmtree(first.left)
    copy = copied(log, disks[0])
    assert broker.partitions.switch(copy, on_loop)
    broker.kill()
    (disks[0] / "topic-0").rename(copy.folder)  # as before the last rename
    return copy


def test_a_copy_stays_while_the_directory_is_missing_that_tells_whether_it_is_whole(
    disks: list[Path],
) -> None:
    copy = moved_back(disks)

    without = BrokerRun(disks[0], directories=Directories(disks[0], (), {disks[1]: "it is gone"}))
    [found] = without.open()
    assert found.is_offline
    assert without.partitions.rename_strays(lambda *_: TOPIC_ID) == []
    without.kill()
    assert names(disks[0]) == {copy.folder.name}

    again = run_on(disks)
    [found] = again.open()
    assert (Path(found.folder).parent, offsets(found)) == (disks[0], 3)
    assert again.partitions.rename_strays(lambda *_: TOPIC_ID) == [copy.left]
    again.kill()


def test_a_copy_is_set_aside_once_the_missing_directory_is_given_up(disks: list[Path]) -> None:
    copy = moved_back(disks)

    without = BrokerRun(disks[0])

    assert without.partitions.rename_strays(lambda *_: TOPIC_ID) == []
    without.kill()
    [aside] = names(disks[0])
    assert aside.startswith("topic-0.")
    assert aside.endswith("-stray")
    assert (disks[0] / aside / "00000000000000000000.log").exists()
    assert not copy.folder.exists()


@pytest.mark.parametrize("missing", [True, False])
def test_what_a_move_has_left_is_removed_if_other_brokers_have_all_replicas(
    disks: list[Path], missing: bool
) -> None:
    left, copy = disks[0] / "topic-0.id-moved", disks[0] / "topic-0.other-future"
    for folder in (left, copy):
        folder.mkdir()
        checkpoint.write_partition_metadata(folder, TOPIC_ID)
    lost = {disks[1]: "it is gone"} if missing else {}
    broker = BrokerRun(disks[0], directories=Directories(disks[0], (), lost))

    assert sorted(broker.partitions.rename_strays(lambda *_: TOPIC_ID, lambda *_: False)) == [
        left,
        copy,
    ]
    broker.kill()


def test_an_old_folder_whose_copy_is_given_up_is_set_aside(
    broker: BrokerRun, disks: list[Path]
) -> None:
    log = made(broker)
    copy = copied(log, disks[1])
    assert broker.partitions.switch(copy, on_loop)
    broker.kill()
    shutil.rmtree(disks[1] / "topic-0")

    again = run_on(disks)
    again.partitions.announce_topic("topic", TOPIC_ID, [0], CONFIG)
    assert again.partitions.rename_strays(lambda *_: TOPIC_ID) == []

    assert [name.endswith("-stray") for name in names(disks[0])] == [True]
    again.kill()


def test_what_a_move_of_a_deleted_topic_has_left_is_removed(
    broker: BrokerRun, disks: list[Path]
) -> None:
    left, copy = disks[0] / "gone-0.id-moved", disks[1] / "gone-0.id-future"
    for folder in (left, copy):
        folder.mkdir()
        checkpoint.write_partition_metadata(folder, random_id())

    assert sorted(broker.partitions.rename_strays()) == [left, copy]


def test_a_hold_needs_a_log_in_service(broker: BrokerRun) -> None:
    log = made(broker)
    log.take_offline("for this test")

    assert not moving.hold(log)


def test_what_others_have_made_in_the_copy_stays(broker: BrokerRun, disks: list[Path]) -> None:
    log = made(broker)
    copy = copied(log, disks[1])
    (copy.folder / "of-others.db").write_bytes(b"theirs")
    stale = copy.folder / "00000000000000000099.snapshot"
    stale.write_bytes(b"of the log")

    assert broker.partitions.switch(copy, on_loop)

    assert (Path(log.folder) / "of-others.db").read_bytes() == b"theirs"
    assert not (Path(log.folder) / stale.name).exists()
