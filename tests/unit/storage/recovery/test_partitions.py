"""The folders and files of a data directory's partitions, from start to start."""

import errno
import shutil
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker._native.log import seal
from broker._native.log.partition_log import PartitionLog
from broker.codec.control_records import Marker, encode_marker
from broker.model.errors import StorageError
from broker.model.identifiers import random_id
from broker.segments import text_files
from broker.segments.names import ABORTED, DAMAGE, DIGEST, LOG, file_name
from broker.storage.checkpoints import checkpoint, clean_segments
from broker.storage.files.deletion import DeletedFolders
from broker.storage.metadata import Put
from broker.storage.recovery import syncing
from tests.support.batches import batch_of
from tests.unit.storage.broker_run import BATCH, CONFIG, TOPIC_ID, BrokerRun

HEADER_BYTES = 61


def test_the_names_of_a_new_topics_files_are_durable_before_it_exists(broker: BrokerRun) -> None:
    file_ops.start_recording()

    broker.make(count=2)

    synced = [path for op, path, *_ in file_ops.recorded() if op == "sync_folder"]
    file_ops.stop_recording()
    assert synced == [str(broker.path / "topic-0"), str(broker.path / "topic-1"), str(broker.path)]


def test_a_topic_that_cannot_be_created_leaves_no_folder(broker: BrokerRun) -> None:
    file_ops.start_recording()
    file_ops.fail("make_folder", "topic-1", errno.ENOSPC)

    with pytest.raises(StorageError):
        broker.make(count=2)

    file_ops.stop_recording()
    assert [entry.name for entry in broker.path.iterdir() if entry.is_dir()] == []


def test_a_clean_stop_keeps_records_and_the_epoch(broker: BrokerRun) -> None:
    broker.open()[0].append(BATCH)
    broker.turn.end()
    broker.stop()

    again = BrokerRun(broker.path)
    (log,) = again.open()

    assert (log.log_end_offset, log.high_watermark, log.leader_epoch) == (1, 1, 0)
    again.kill()


def test_an_unclean_start_raises_the_epoch_above_all_earlier_ones(broker: BrokerRun) -> None:
    broker.store.transact([], [Put(b"topic/topic", b"{}")])
    broker.open()[0].append(BATCH)
    broker.kill()

    epochs = []
    for _ in range(3):
        again = BrokerRun(broker.path)
        (log,) = again.open()
        log.append(BATCH)
        epochs.append(log.leader_epoch)
        again.kill()

    assert epochs == [1, 2, 3]


def test_an_unclean_start_syncs_folders_that_the_last_run_may_not_have_synced(
    broker: BrokerRun,
) -> None:
    broker.open()[0].append(BATCH)
    broker.kill()

    file_ops.start_recording()
    again = BrokerRun(broker.path)
    again.open()

    synced = [path for op, path, *_ in file_ops.recorded() if op == "sync_folder"]
    file_ops.stop_recording()
    assert synced == [str(broker.path), str(broker.path / "topic-0")]
    again.kill()


def test_a_partly_written_partition_metadata_file_does_not_prevent_opening_the_log(
    broker: BrokerRun,
) -> None:
    (log,) = broker.open()
    log.append(BATCH)
    broker.kill()
    folder = broker.path / "topic-0"
    (folder / text_files.PARTITION_METADATA).rename(folder / "partition.metadata.tmp")

    again = BrokerRun(broker.path)
    (log,) = again.open()

    assert (log.is_offline, log.log_end_offset) == (False, 1)
    again.kill()


def test_a_folder_of_another_topic_id_is_set_aside(broker: BrokerRun) -> None:
    broker.open()[0].append(BATCH)
    broker.stop()

    again = BrokerRun(broker.path)
    (log,) = again.open(random_id())

    assert log.log_end_offset == 0
    assert len(list(broker.path.glob("topic-0.*-stray"))) == 1
    again.kill()


def test_a_partition_with_an_unreadable_file_is_offline_and_the_others_work(
    broker: BrokerRun,
) -> None:
    for log in broker.open(count=2):
        log.append(BATCH)
    broker.kill()

    again = BrokerRun(broker.path)
    file_ops.start_recording()
    file_ops.fail("read", "topic-0/0", errno.EIO, times=100)
    broken, whole = again.open(count=2)
    file_ops.stop_recording()

    assert (broken.is_offline, whole.is_offline) == (True, False)
    assert whole.log_end_offset == 1
    again.kill()


# ---- damage after the last checkpoint -----------------------------------------------------------


def rolled(broker: BrokerRun, count: int = 8) -> list[bytes]:
    """Kill a broker whose log has two records in each segment, all sealed but the last."""
    (log,) = broker.make()
    for number in range(count):
        log.append(BATCH)
        broker.end_synced(log)
        if number % 2:
            log.roll()
    broker.end_sealed(log)
    stored = all_of(log)
    broker.kill()
    return stored


def served(log: PartitionLog) -> list[bytes | None]:
    """Return what a reader gets at each offset; None: an error."""
    found: list[bytes | None] = []
    for offset in range(log.log_start_offset, log.log_end_offset):
        try:
            found.append(log.read(offset, 1))
        except StorageError:
            found.append(None)
    return found


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def test_damage_in_a_sealed_segment_affects_its_batch_and_is_known_to_every_later_start(
    broker: BrokerRun,
) -> None:
    stored = rolled(broker)
    flip(broker.path / "topic-0" / file_name(2, LOG), 70)
    expected = [*stored[:2], None, *stored[3:]]

    for _ in range(2):
        again = BrokerRun(broker.path)
        (log,) = again.open()
        assert served(log) == expected
        again.kill()
    again = BrokerRun(broker.path)
    (log,) = again.open()
    log.append(BATCH)
    again.end_synced(log)
    again.stop()
    last = BrokerRun(broker.path)
    (log,) = last.open()

    assert (broker.path / "topic-0" / file_name(2, DAMAGE)).exists()
    assert last.partitions.is_clean
    assert served(log)[:8] == expected
    assert log.log_end_offset == 9
    last.kill()


def test_a_lost_end_of_the_log_lowers_the_offset_known_to_be_synced(broker: BrokerRun) -> None:
    """Otherwise appends torn by a crash would count as damage instead of the end."""
    rolled(broker)
    folder = broker.path / "topic-0"
    for base in (4, 6, 8):
        (folder / file_name(base, LOG)).unlink()
    again = BrokerRun(broker.path)
    (log,) = again.open()
    assert log.log_end_offset == 4
    for _ in range(3):
        log.append(BATCH)
    again.end_synced(log)
    again.kill()
    assert seal.sealed_offset(str(folder)) == 4
    flip(folder / file_name(2, LOG), 3 * len(BATCH) + 70)

    last = BrokerRun(broker.path)
    (log,) = last.open()

    assert (log.log_end_offset, log.damaged_ranges) == (5, [])
    last.kill()


def test_segments_restored_into_a_clean_directory_are_served_around_their_damage(
    broker: BrokerRun,
) -> None:
    copy, stored = restored(broker)
    folder = broker.path / "topic-0"
    for file in folder.glob("*.log"):
        file.unlink()
    flip(copy / file_name(2, LOG), len(BATCH) + 70)
    for file in copy.glob("*[024].log"):
        shutil.copy(file, folder)

    again = BrokerRun(broker.path)
    (log,) = again.open()

    assert again.partitions.is_clean
    assert served(log) == [*stored[:3], None, *stored[4:]]
    again.kill()


# ---- files changed since a clean stop -----------------------------------------------------------


def restored(broker: BrokerRun, count: int = 6) -> tuple[Path, list[bytes]]:
    """Leave a stopped directory with segments of two records each; return a copy of them."""
    (log,) = broker.make()
    for number in range(count):
        log.append(BATCH)
        broker.end_synced(log)
        if number % 2:
            log.roll()
    broker.end_synced(log)
    stored = [log.read(offset, 1) for offset in range(count)]
    broker.stop()
    copy = broker.path / "copy"
    shutil.copytree(log.folder, copy)
    return copy, stored


def all_of(log: PartitionLog) -> list[bytes]:
    return [log.read(at, 1) for at in range(log.log_start_offset, log.log_end_offset)]


def test_files_restored_into_a_cleanly_stopped_directory_are_the_log(broker: BrokerRun) -> None:
    """The checkpoint says that the log ends at 0: an append there would precede them."""
    copy, stored = restored(broker)
    folder = broker.path / "topic-0"
    shutil.rmtree(folder)
    for file in [*broker.path.glob("*checkpoint"), broker.path / text_files.CLEAN_SHUTDOWN]:
        file.unlink(missing_ok=True)
    empty = BrokerRun(broker.path)
    empty.open()
    empty.stop()
    for file in copy.glob("*.log"):
        shutil.copy(file, folder)

    again = BrokerRun(broker.path)
    (log,) = again.open()

    assert again.partitions.is_clean
    assert (all_of(log), log.log_end_offset) == (stored, 6)
    assert log.leader_epoch > 0
    epoch = log.leader_epoch
    log.append(BATCH)
    again.end_synced(log)
    again.kill()
    last = BrokerRun(broker.path)
    (log,) = last.open()
    assert (log.log_end_offset, all_of(log)[:6]) == (7, stored)
    assert log.leader_epoch > epoch
    last.kill()


@pytest.mark.parametrize("change", ["added", "shorter", "longer", "removed", "older"])
def test_a_clean_start_recovers_exactly_the_logs_with_changed_files(
    broker: BrokerRun, change: str
) -> None:
    _, stored = restored(broker)
    folder = broker.path / "topic-0"
    last = folder / file_name(6, LOG)
    whole = (folder / file_name(4, LOG)).read_bytes()
    if change == "added":
        last.write_bytes((6).to_bytes(8) + whole[8 : len(BATCH)])
    elif change == "shorter":
        (folder / file_name(4, LOG)).write_bytes(whole[: len(BATCH)])
        last.unlink()
    elif change == "longer":
        last.write_bytes((6).to_bytes(8) + whole[8 : len(BATCH)] + b"torn")
    elif change == "removed":
        last.unlink()
    else:
        for base in (4, 6):
            (folder / file_name(base, LOG)).unlink()
    end = {"added": 7, "shorter": 5, "longer": 7, "removed": 6, "older": 4}[change]

    again = BrokerRun(broker.path)
    (log,) = again.open()

    assert log.log_end_offset == end
    assert all_of(log)[:6] == stored[: min(end, 6)]
    assert log.leader_epoch == 1
    log.append(BATCH)
    again.end_synced(log)
    assert log.log_end_offset == end + 1
    again.stop()
    last_broker = BrokerRun(broker.path)
    (log,) = last_broker.open()
    assert (log.log_end_offset, log.leader_epoch) == (end + 1, 1)
    last_broker.kill()


def test_a_clean_start_reads_no_log_with_unchanged_files(broker: BrokerRun) -> None:
    """Also if the log start is above some segments, and if a log was not loaded before."""
    restored(broker)
    broker = BrokerRun(broker.path)
    (log,) = broker.open()
    log.move_log_start(3)
    broker.stop()
    shutil.copy(broker.path / clean_segments.FILE_NAME, broker.path / "kept")

    idle = BrokerRun(broker.path)
    idle.partitions.announce_topic("topic", TOPIC_ID, [0], CONFIG)
    idle.stop()
    again = BrokerRun(broker.path)
    file_ops.start_recording()
    (log,) = again.open()

    sizes = [
        size
        for op, path, _, size, *_ in file_ops.recorded()
        if op == "read" and path.endswith(".log")
    ]
    file_ops.stop_recording()
    assert max(sizes, default=0) < HEADER_BYTES
    assert (log.log_start_offset, log.log_end_offset, log.leader_epoch) == (3, 6, 0)
    assert (broker.path / clean_segments.FILE_NAME).read_bytes() == (
        broker.path / "kept"
    ).read_bytes()
    again.kill()


def test_a_restored_compacted_log_keeps_its_gaps(broker: BrokerRun) -> None:
    _, stored = restored(broker)
    folder = broker.path / "topic-0"
    (folder / file_name(0, LOG)).write_bytes(stored[1])
    (folder / file_name(2, LOG)).write_bytes(b"")

    again = BrokerRun(broker.path)
    (log,) = again.open()

    assert (log.read(0, 1), log.read(1, 1), log.read(2, 1)) == (stored[1], stored[1], stored[4])
    assert log.log_end_offset == 6
    again.kill()


@pytest.mark.parametrize("damage", [None, b"", b"0\ntopic 0 0000000000000000\n1\n"])
def test_without_the_digests_of_a_clean_stop_every_log_is_recovered(
    broker: BrokerRun, damage: bytes | None
) -> None:
    _, stored = restored(broker)
    file = broker.path / clean_segments.FILE_NAME
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage)

    again = BrokerRun(broker.path)
    (log,) = again.open()

    assert (all_of(log), log.leader_epoch) == (stored, 1)
    again.stop()
    last = BrokerRun(broker.path)
    assert last.open()[0].leader_epoch == 1
    last.kill()


def test_the_digests_are_durable_before_the_clean_stop_marker(broker: BrokerRun) -> None:
    (log,) = broker.make()
    log.append(BATCH)
    broker.end_synced(log)
    file_ops.start_recording()

    broker.stop()

    done = [(op, Path(path).name) for op, path, *_ in file_ops.recorded()]
    file_ops.stop_recording()
    renamed = done.index(("rename", clean_segments.FILE_NAME + ".tmp"))
    synced = done.index(("sync_folder", broker.path.name), renamed)
    assert synced < done.index(("rename", text_files.CLEAN_SHUTDOWN + ".tmp"))


def test_a_log_that_is_taken_offline_is_logged_and_one_of_many_is_not(
    broker: BrokerRun, caplog: pytest.LogCaptureFixture
) -> None:
    alone, one_of_many = broker.open(count=2)

    alone.take_offline("for this test")
    one_of_many.end_service()

    assert alone.is_offline
    assert one_of_many.is_offline
    assert [each.getMessage() for each in caplog.records] == [
        f"log offline topic=topic partition=0 folder={alone.folder} error=for this test"
    ]


def test_an_offline_log_makes_the_stop_unclean(broker: BrokerRun) -> None:
    broker.open()[0].take_offline("for this test")
    broker.stop()

    assert not checkpoint.take_clean_shutdown(broker.path)


@pytest.mark.parametrize("way", ["clean", "crash"])
def test_a_start_removes_segments_that_an_earlier_run_removed_from_the_log(
    broker: BrokerRun, way: str
) -> None:
    folder = Path(broker.open()[0].folder)
    for name in ("5.log.deleted", "5.index.deleted", "5.log.cleaned"):
        (folder / f"{0:019}{name}").write_bytes(b"x")
    if way == "clean":
        broker.stop()
    else:
        broker.kill()

    again = BrokerRun(broker.path)
    (log,) = again.open()

    assert not log.is_offline
    assert sorted(file.name for file in folder.iterdir()) == [
        f"{0:020}.log",
        text_files.PARTITION_METADATA,
    ]
    again.kill()


def test_recovery_removes_the_digests_of_truncated_and_set_aside_segments(
    broker: BrokerRun,
) -> None:
    (log,) = broker.open()
    for _ in range(4):
        log.append(BATCH)
        broker.end_synced(log)
        log.roll()
    broker.kill()
    folder = Path(log.folder)
    (folder / seal.FILE_NAME).unlink()  # as if a power cut had torn what was never synced
    for base in range(4):
        (folder / file_name(base, DIGEST)).write_bytes(b"x")
    damaged = folder / file_name(1, LOG)
    damaged.write_bytes(damaged.read_bytes()[:-1])

    again = BrokerRun(broker.path)
    file_ops.start_recording()
    (log,) = again.open()
    work = [(kind, Path(path).name) for kind, path, *_ in file_ops.recorded()]
    file_ops.stop_recording()

    assert log.log_end_offset == 1
    assert [file.name for file in folder.glob("*.digest")] == [file_name(0, DIGEST)]
    last = max(work.index(("remove", file_name(base, DIGEST))) for base in (1, 2, 3))
    assert ("sync_folder", folder.name) in work[last:]
    again.kill()


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_digest_is_kept_if_recovery_finds_the_same_aborted_transactions(
    broker: BrokerRun, is_changed: bool
) -> None:
    (log,) = broker.make()
    abort(log)
    broker.end_synced(log)
    log.roll()
    log.append(BATCH)
    broker.end_synced(log)
    broker.kill()
    folder = Path(log.folder)
    (folder / file_name(0, DIGEST)).write_bytes(b"x")
    index = folder / file_name(0, ABORTED)
    whole = index.read_bytes()
    if is_changed:
        index.write_bytes(whole[:17] + b"\1" + whole[18:])  # where the transaction began

    again = BrokerRun(broker.path)
    again.open()

    assert index.read_bytes() == whole
    assert (folder / file_name(0, DIGEST)).exists() != is_changed
    again.kill()


def abort(log: PartitionLog) -> None:
    """Append a record in a transaction that is aborted."""
    log.admit_transaction(7, 0)
    marker = Marker(7, 0, is_committed=False, coordinator_epoch=0)
    fields = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
    log.append(batch_of([(b"key", b"value", ())], 1_700_000_000_000, **fields))
    log.append_internal(encode_marker(marker, timestamp_ms=1_700_000_000_000))


def test_a_recreated_topic_starts_at_offset_0(broker: BrokerRun) -> None:
    """Checkpoints identify logs by name: entries of the old one must be gone."""
    (old,) = broker.make()
    for _ in range(3):
        old.append(BATCH)
        broker.end_synced(old)
    old.move_log_start(2)
    broker.partitions.write_checkpoint(broker.partitions.plan_checkpoint())
    broker.partitions.delete(old)
    DeletedFolders(broker.path).put_away("topic", TOPIC_ID, [0], is_name_taken=False)
    again_id = random_id()
    (log,) = broker.make(again_id)
    log.append(BATCH)
    broker.kill()

    again = BrokerRun(broker.path)
    (log,) = again.open(again_id)

    assert (log.log_start_offset, log.log_end_offset) == (0, 1)
    again.kill()


def test_the_epochs_of_a_recreated_topic_are_written_even_if_equal_to_those_of_the_old_one(
    broker: BrokerRun,
) -> None:
    topic_id = TOPIC_ID
    for _ in range(2):
        (log,) = broker.make(topic_id)
        log.append(BATCH)
        broker.end_synced(log)
        broker.partitions.prepare_checkpoint()
        assert text_files.read_leader_epochs(Path(log.folder)) == [(0, 0)]
        broker.partitions.delete(log)
        DeletedFolders(broker.path).put_away("topic", topic_id, [0], is_name_taken=False)
        topic_id = random_id()


@pytest.mark.parametrize("is_start", [False, True])
def test_checkpoints_of_an_old_log_are_removed_before_the_new_one_has_a_folder(
    broker: BrokerRun, is_start: bool
) -> None:
    """A start that finds the folder alone would trust the old log's offsets."""
    (old,) = broker.make()
    old.append(BATCH)
    broker.end_synced(old)
    old.move_log_start(1)
    broker.partitions.write_checkpoint(broker.partitions.plan_checkpoint())
    broker.partitions.delete(old)
    DeletedFolders(broker.path).put_away("topic", TOPIC_ID, [0], is_name_taken=False)
    file_ops.start_recording()

    (broker.open if is_start else broker.make)(random_id())

    names = [op for op, path, *_ in file_ops.recorded() if op in {"rename", "make_folder"}]
    file_ops.stop_recording()
    assert names == ["rename", "rename", "make_folder"]


def test_a_recovery_point_waits_for_the_index_of_aborted_transactions_below_it(
    broker: BrokerRun,
) -> None:
    """A start reads batches from a snapshot on: earlier aborts are known only to the index."""
    (log,) = broker.make()
    abort(log)
    broker.end_synced(log)
    points = broker.partitions.plan_checkpoint()
    file_ops.start_recording()

    assert broker.partitions.prepare_checkpoint() == {}
    broker.partitions.write_checkpoint(points)

    done = [(op, Path(path).name) for op, path, *_ in file_ops.recorded()]
    file_ops.stop_recording()
    index = done.index(("sync_data", f"{0:020}.txnindex"))
    name = done.index(("sync_folder", "topic-0"), index)
    assert name < done.index(("rename", text_files.RECOVERY_POINTS + ".tmp"))


def test_a_log_that_lost_all_records_continues_at_its_log_start(broker: BrokerRun) -> None:
    """Under `os`, after a power cut: new records at lower offsets would count as deleted."""
    (log,) = broker.make()
    for _ in range(3):
        log.append(BATCH)
        broker.end_synced(log)
    broker.partitions.note_log_starts([(log, 2)])
    broker.partitions.write_log_starts()
    broker.kill()
    (broker.path / "topic-0" / f"{0:020}.log").write_bytes(b"")

    again = BrokerRun(broker.path)
    (log,) = again.open()
    assert (log.log_start_offset, log.log_end_offset) == (2, 2)
    log.append(BATCH)
    again.end_synced(log)
    again.kill()

    again = BrokerRun(broker.path)
    (log,) = again.open()
    assert (log.log_start_offset, log.log_end_offset) == (2, 3)
    assert log.read(2, 1000)[:8] == (2).to_bytes(8)
    again.kill()


def test_a_stop_writes_nothing_for_an_unused_log(broker: BrokerRun) -> None:
    for log in broker.make(count=2):
        log.append(BATCH)
        broker.end_synced(log)
    broker.stop()
    again = BrokerRun(broker.path)
    first, _ = again.open(count=2)
    first.append(BATCH)
    again.end_synced(first)
    file_ops.start_recording()

    again.stop()

    file_ops.stop_recording()
    writes = {"write", "truncate", "rename", "sync", "sync_data", "remove"}
    touched = {Path(path) for op, path, *_ in file_ops.recorded() if op in writes}
    assert any(broker.path / "topic-0" in path.parents for path in touched)
    assert not any(broker.path / "topic-1" in path.parents for path in touched)
    assert checkpoint.take_clean_shutdown(broker.path)


def test_a_stop_syncs_records_before_they_are_below_the_recovery_point(broker: BrokerRun) -> None:
    (log,) = broker.make()
    log.append(BATCH)
    broker.commit.stop()
    assert log.needs_sync
    file_ops.start_recording()

    broker.partitions.close()

    file_ops.stop_recording()
    done = [(op, Path(path).name) for op, path, *_ in file_ops.recorded()]
    synced = done.index(("sync_data", file_name(0, LOG)))
    assert synced < done.index(("rename", text_files.RECOVERY_POINTS + ".tmp"))
    assert (log.durable_end, log.needs_sync) == (1, False)


@pytest.mark.parametrize("was_clean", [True, False])
def test_a_stop_before_all_logs_are_loaded_is_as_clean_as_the_previous_one(
    broker: BrokerRun, was_clean: bool
) -> None:
    for log in broker.make(count=2):
        log.append(BATCH)
        broker.end_synced(log)
    broker.partitions.write_checkpoint(broker.partitions.plan_checkpoint())
    if was_clean:
        broker.stop()
    else:
        broker.kill()

    again = BrokerRun(broker.path)
    first, second = again.partitions.announce_topic("topic", TOPIC_ID, range(2), CONFIG)
    assert again.partitions.load(first) is None
    assert again.partitions.settle([first]) == {}
    first.end_loading()
    again.stop()

    assert second.is_loading
    assert (broker.path / text_files.CLEAN_SHUTDOWN).exists() is was_clean
    last = BrokerRun(broker.path)
    assert [log.log_end_offset for log in last.open(count=2)] == [1, 1]
    last.kill()


def test_a_checkpoint_keeps_the_recovery_point_of_a_loading_log(broker: BrokerRun) -> None:
    (log,) = broker.make()
    log.append(BATCH)
    broker.end_synced(log)
    broker.stop()
    again = BrokerRun(broker.path)
    again.partitions.announce_topic("topic", TOPIC_ID, [0], CONFIG)

    again.partitions.write_checkpoint(again.partitions.plan_checkpoint())

    points = text_files.read_offsets(broker.path / text_files.RECOVERY_POINTS)
    assert points == {("topic", 0): 1}
    again.kill()


def test_recovered_logs_are_synced_before_they_are_used(broker: BrokerRun) -> None:
    for log in broker.make(count=3):
        log.append(BATCH)
    broker.kill()
    again = BrokerRun(broker.path)
    logs = again.partitions.announce_topic("topic", TOPIC_ID, range(3), CONFIG)
    file_ops.start_recording()

    for log in logs:
        assert again.partitions.load(log) is None
    file_ops.fail("sync_data", "topic-1/", errno.EIO)
    failed = again.partitions.settle(logs)

    file_ops.stop_recording()
    assert list(failed) == [logs[1]]
    synced = {Path(path).parent.name for op, path, *_ in file_ops.recorded() if op == "sync_data"}
    assert synced == {"topic-0", "topic-1", "topic-2"}
    assert [log.durable_end for log in logs] == [1, 0, 1]
    again.kill()


def test_many_recovered_logs_share_one_sync(
    broker: BrokerRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "LOGS_SYNCED_ONE_BY_ONE_MAX", 2)
    for log in broker.make(count=3):
        log.append(BATCH)
    broker.kill()
    again = BrokerRun(broker.path)
    file_ops.start_recording()

    logs = again.open(count=3)

    file_ops.stop_recording()
    syncs = [op for op, *_ in file_ops.recorded() if op.startswith("sync")]
    assert syncs == ["sync_filesystem"]
    assert [log.durable_end for log in logs] == [1, 1, 1]
    again.kill()


@pytest.mark.parametrize("one_by_one_max", [0, 16])
def test_a_checkpoint_writes_the_epochs_of_logs_with_new_ones(
    broker: BrokerRun, monkeypatch: pytest.MonkeyPatch, one_by_one_max: int
) -> None:
    monkeypatch.setattr(syncing, "LOGS_SYNCED_ONE_BY_ONE_MAX", one_by_one_max)
    first, second, _ = broker.make(count=3)
    for log in (first, second):
        log.append(BATCH)
        broker.end_synced(log)
    second.start_epoch(4)
    file_ops.start_recording()

    for _ in range(2):
        assert broker.partitions.prepare_checkpoint() == {}
        broker.partitions.write_checkpoint(broker.partitions.plan_checkpoint())

    file_ops.stop_recording()
    renames = [Path(path).parent.name for op, path, *_ in file_ops.recorded() if op == "rename"]
    assert [name for name in renames if name.startswith("topic")] == ["topic-0", "topic-1"]
    steps = [op for op, *_ in file_ops.recorded()]
    assert steps.index("write") < steps.index("rename")
    assert steps.index("sync_filesystem" if one_by_one_max == 0 else "sync") < steps.index("rename")
    epochs = [text_files.read_leader_epochs(Path(log.folder)) for log in (first, second)]
    assert epochs == [[(0, 0)], [(0, 0), (4, 1)]]


def test_an_index_that_cannot_be_synced_holds_back_only_its_log_and_is_not_retried(
    broker: BrokerRun,
) -> None:
    good, bad = broker.make(count=2)
    for log in (good, bad):
        log.append(BATCH)
        broker.end_synced(log)
        assert log.roll()
        log.append(BATCH)
        broker.end_synced(log)
    file_ops.start_recording()
    file_ops.fail("sync_data", "topic-1/00000000000000000000.index", errno.EIO)

    for _ in range(2):
        points = broker.partitions.plan_checkpoint()
        for log, reason in broker.partitions.prepare_checkpoint().items():
            log.take_offline(reason)
        broker.partitions.write_checkpoint(points)

    file_ops.stop_recording()
    synced = [path for op, path, *_ in file_ops.recorded() if op == "sync_data"]
    assert sum(path.endswith("topic-1/00000000000000000000.index") for path in synced) == 1
    assert (good.is_offline, bad.is_offline) == (False, True)
    assert text_files.read_offsets(broker.path / text_files.RECOVERY_POINTS) == {("topic", 0): 2}


def test_a_log_that_fails_at_the_stop_does_not_prevent_closing_the_others(
    broker: BrokerRun,
) -> None:
    good, bad = broker.make(count=2)
    for log in (good, bad):
        log.append(BATCH)
        broker.end_synced(log)
    file_ops.start_recording()
    file_ops.fail("write", "topic-1/00000000000000000000.index", errno.EIO)

    broker.stop()

    file_ops.stop_recording()
    assert (good.is_offline, bad.is_offline) == (False, True)
    assert not (broker.path / text_files.CLEAN_SHUTDOWN).exists()
    assert text_files.read_offsets(broker.path / text_files.RECOVERY_POINTS)["topic", 0] == 1


def test_a_planned_recovery_point_is_not_written_by_recreating_a_topic(
    broker: BrokerRun,
) -> None:
    """It is not prepared yet: the aborts below it may not be on the disk."""
    (other,) = broker.partitions.open_topic("other", random_id(), [0], CONFIG)
    (log,) = broker.make()
    for each in (other, log):
        each.append(BATCH)
        broker.end_synced(each)
    assert broker.partitions.prepare_checkpoint() == {}
    broker.partitions.write_checkpoint(broker.partitions.plan_checkpoint())
    other.append(BATCH)
    broker.end_synced(other)
    broker.partitions.plan_checkpoint()
    DeletedFolders(broker.path).put_away("topic", TOPIC_ID, [0], is_name_taken=False)
    broker.partitions.delete(log)

    broker.make(random_id())

    assert text_files.read_offsets(broker.path / text_files.RECOVERY_POINTS) == {("other", 0): 1}
    broker.kill()


def test_a_stop_does_not_advance_a_log_that_went_offline_after_the_checkpoint_plan(
    broker: BrokerRun,
) -> None:
    good, bad = broker.make(count=2)
    for log in (good, bad):
        log.append(BATCH)
        broker.end_synced(log)
    broker.partitions.plan_checkpoint()
    bad.take_offline("an index cannot be synced")

    broker.stop()

    assert text_files.read_offsets(broker.path / text_files.RECOVERY_POINTS) == {("topic", 0): 1}


def test_a_checkpoint_returns_the_log_whose_epochs_could_not_be_made_durable(
    broker: BrokerRun,
) -> None:
    (log,) = broker.make()
    log.append(BATCH)
    broker.end_synced(log)
    file_ops.start_recording()
    file_ops.fail("sync_folder", "topic-0", errno.EIO)

    assert list(broker.partitions.prepare_checkpoint()) == [log]
    file_ops.stop_recording()
