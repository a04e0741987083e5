"""A replica's log is cut where its leader's differs: what is left is a log of the first batches."""

from pathlib import Path
from random import Random

import pytest

from broker._native.log.commit import CommitThread
from broker._native.log.partition_log import PartitionLog
from broker._native.log.segment_check import SegmentCheck
from broker.segments import text_files
from broker.segments.digests import Digest
from broker.segments.names import ABORTED, INDEX, LOG, TIME_INDEX, file_name
from broker.storage.files import digests
from broker.storage.recovery import truncation
from broker.storage.recovery.truncation import cut_point
from tests.support.batches import header
from tests.support.cut_log import CutLog, content_of, files_of, kept, reading, state_of
from tests.support.native_log import NOW_MS, appended, records

COMMIT = CommitThread(1)  # one for all tests: they wait for what they make durable
SEEDS = range(8)


def cut_randomly(path: Path, rng: Random, durability: str) -> None:
    """Cut a log again and again; each time it is like one that was never longer."""
    broker = CutLog(path / "data", COMMIT, durability)
    log = broker.make()
    for number in range(4):
        broker.grow(log, rng, rng.randint(5, 40))
        if rng.random() < 0.7:
            broker.finish(log)
        else:
            broker.turn.end()
            broker.finish(log)
        stored = content_of(log)
        if not stored:
            continue
        offset = rng.choice(
            [
                0,
                log.log_end_offset,
                rng.randint(0, log.log_end_offset),
                header(rng.choice(stored)).base_offset,
                header(stored[-1]).base_offset,
            ]
        )
        broker.cut(log, offset)
        left = kept(stored, offset)
        expected = state_of(reading(path / f"reading-{number}", broker.turn, left))
        expected = expected._replace(epochs=expected.epochs if left else [])
        found = state_of(log)
        assert found.content == left
        assert found._replace(epochs=[]) == expected._replace(epochs=[])
        assert [each[0] for each in log.epoch_entries] == sorted(
            {each[0] for each in log.epoch_entries}
        )
        assert all(start <= log.log_end_offset for _, start in log.epoch_entries)
        if len(left) < len(stored):
            assert not log.needs_sync
        if rng.random() < 0.5:  # a start after a kill finds the same
            broker = CutLog(path / "data", COMMIT, durability)
            log = broker.open()
            assert state_of(log)._replace(epochs=[]) == expected._replace(epochs=[])


@pytest.mark.parametrize("durability", ["group-commit", "os"])
def test_a_cut_log_is_like_one_that_was_never_longer(tmp_path: Path, durability: str) -> None:
    for seed in SEEDS:
        path = tmp_path / str(seed)
        (path / "data").mkdir(parents=True)
        cut_randomly(path, Random(f"{seed} {durability}"), durability)


@pytest.fixture
def broker(tmp_path: Path) -> CutLog:
    """A data directory."""
    return CutLog(tmp_path, COMMIT)


def grown(broker: CutLog, count: int = 12) -> list[int]:
    """Make a log of batches of one record, of three segments; return its base offsets."""
    log = broker.make()
    for _ in range(count):
        appended(log, records(size=200))
        broker.finish(log)
    broker.checkpoint()
    return [base for base, _, _ in log.segment_entries]


def the_log(broker: CutLog) -> PartitionLog:
    """Return the log that was made."""
    return broker.partitions._logs["topic-0"]


def test_nothing_but_the_kept_segments_and_snapshots_is_left(broker: CutLog) -> None:
    bases = grown(broker)
    log = the_log(broker)

    broker.cut(log, bases[1] + 1)

    assert {int(name[:20]) for name in files_of(log) if name.endswith(".log")} == set(bases[:2])
    assert all(int(name[:20]) <= bases[1] + 1 for name in files_of(log))


def index_errors(log: PartitionLog, base: int) -> tuple[int, int, int]:
    """Return how many entries of each index of a closed segment are not those of its batches."""
    folder = Path(log.folder)
    index, times, aborted = (
        file.read_bytes() if file.exists() else b""
        for file in (folder / file_name(base, suffix) for suffix in (INDEX, TIME_INDEX, ABORTED))
    )
    check = SegmentCheck(
        str(folder / file_name(base, LOG)), base, index=index, time_index=times, aborted=aborted
    )
    while check.step(1 << 20):
        pass
    check.close()
    return check.index_errors


def test_no_index_has_an_entry_of_what_was_cut(tmp_path: Path) -> None:
    checked = 0
    for seed in SEEDS:
        (tmp_path / str(seed)).mkdir()
        rng = Random(seed)
        broker = CutLog(tmp_path / str(seed), COMMIT)
        log = broker.make()
        for _ in range(3):
            broker.grow(log, rng, 40)
            broker.finish(log)
            broker.checkpoint()
            broker.cut(log, rng.randint(log.log_end_offset // 2, log.log_end_offset - 1))
        broker.grow(log, rng, 40)
        broker.finish(log)
        broker.checkpoint()

        for base, _, _ in log.segment_entries[:-1]:
            assert index_errors(log, base) == (0, 0, 0)
            checked += 1
    assert checked > 2 * len(SEEDS)


def test_a_cut_at_the_end_changes_no_file(broker: CutLog) -> None:
    grown(broker)
    log = the_log(broker)
    before = {each: each.stat().st_mtime_ns for each in Path(log.folder).iterdir()}

    broker.cut(log, log.log_end_offset)

    assert {each: each.stat().st_mtime_ns for each in Path(log.folder).iterdir()} == before


def test_a_cut_at_the_end_removes_an_epoch_without_batches(broker: CutLog) -> None:
    grown(broker)
    log = the_log(broker)
    log.start_epoch(5)

    broker.cut(log, log.log_end_offset)

    assert log.epoch_entries == [(0, 0)]
    assert log.leader_epoch == 0
    assert text_files.read_leader_epochs(Path(log.folder)) == [(0, 0)]


def test_epochs_from_the_cut_on_are_removed_durably(broker: CutLog) -> None:
    log = broker.make()
    for epoch in (1, 2, 3):
        log.start_epoch(epoch)
        appended(log, records(2))
    broker.finish(log)
    broker.checkpoint()
    assert text_files.read_leader_epochs(Path(log.folder)) == [(1, 0), (2, 2), (3, 4)]

    broker.cut(log, 2)

    assert log.epoch_entries == [(1, 0)]
    assert text_files.read_leader_epochs(Path(log.folder)) == [(1, 0)]


def test_the_recovery_point_is_lowered(broker: CutLog) -> None:
    grown(broker)
    log = the_log(broker)
    points = broker.partitions.plan_checkpoint()

    broker.cut(log, 4)
    assert broker.partitions.recovery_point(log) == 4
    for _ in range(8):
        appended(log, records(size=200))
    broker.finish(log)
    broker.partitions.write_checkpoint(points)  # of before the cut

    assert broker.partitions.recovery_point(log) == 4


def test_a_batch_that_the_offset_is_within_is_removed(broker: CutLog) -> None:
    log = broker.make()
    appended(log, records(2))
    appended(log, records(5))
    broker.finish(log)

    broker.cut(log, 4)

    assert log.log_end_offset == 2


def test_the_high_watermark_below_the_cut_stays(broker: CutLog) -> None:
    grown(broker)
    log = the_log(broker)
    assert log.high_watermark == 12

    broker.cut(log, 9)

    assert log.high_watermark == log.log_end_offset == 9


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]


def test_records_below_the_high_watermark_are_counted_in_a_warning(
    broker: CutLog, caplog: pytest.LogCaptureFixture
) -> None:
    grown(broker)

    broker.cut(the_log(broker), 9)

    assert any("records=3 offsets=9..12" in each for each in warnings(caplog))


def test_readable_records_of_a_log_begun_anew_before_them_are_counted_in_a_warning(
    broker: CutLog, caplog: pytest.LogCaptureFixture
) -> None:
    grown(broker)
    log = the_log(broker)
    broker.begin_anew(log, 100)  # after all of them: the leader has deleted them, too
    assert not any("records=" in each for each in warnings(caplog))
    appended(log, records(2))
    broker.finish(log)

    broker.cut(log, 50)

    assert any("records=2 offsets=100..102" in each for each in warnings(caplog))


def test_a_digest_of_the_segment_that_grows_again_is_removed(broker: CutLog) -> None:
    bases = grown(broker)
    log = the_log(broker)
    folder = Path(log.folder)
    file = folder / file_name(bases[0], ".log")
    digests.write(folder, bases[0], Digest(1, 2, NOW_MS, None), file.stat().st_ino)
    assert (folder / file_name(bases[0], ".digest")).exists()

    broker.cut(log, bases[0] + 1)

    assert not (folder / file_name(bases[0], ".digest")).exists()


def test_a_cut_log_grows_again(broker: CutLog) -> None:
    bases = grown(broker)
    log = the_log(broker)
    broker.cut(log, bases[1] + 1)

    for _ in range(10):
        appended(log, records(size=190))
        broker.finish(log)

    assert len(content_of(log)) == bases[1] + 1 + 10
    stored = content_of(log)
    again = CutLog(broker.path, COMMIT).open()
    assert content_of(again) == stored


def test_a_cut_log_is_attached_after_a_clean_stop(
    broker: CutLog, caplog: pytest.LogCaptureFixture
) -> None:
    bases = grown(broker)
    log = the_log(broker)
    broker.cut(log, bases[1] + 1)
    stored = content_of(log)
    broker.partitions.close()

    again = CutLog(broker.path, COMMIT)

    assert again.partitions.is_clean
    assert content_of(again.open()) == stored
    assert not [each for each in caplog.records if "read" in each.getMessage()]


@pytest.mark.parametrize("left", [0, 1, 2])
@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_log_with_damaged_records_is_cut_before_them(
    broker: CutLog, left: int, *, is_cut_off: bool
) -> None:
    bases = grown(broker)
    stored = content_of(the_log(broker))
    file = Path(the_log(broker).folder) / file_name(bases[1], LOG)
    data = file.read_bytes()
    position = sum(len(each) for each in stored[bases[1] : bases[1] + left])
    file.write_bytes(
        data[:position] if is_cut_off else data[: position + 70] + b"?" + data[position + 71 :]
    )
    (broker.path / text_files.RECOVERY_POINTS).unlink()  # all of it is read at the start
    again = CutLog(broker.path, COMMIT)
    log = again.open()
    damage = log.first_damage
    assert damage == bases[1] + left
    assert log.log_end_offset == 12

    again.cut(log, damage)

    assert log.first_damage is None
    assert content_of(log) == stored[:damage]
    assert not [name for name in files_of(log) if name.endswith(".damage")]
    for _ in range(5):
        appended(log, records(size=190))
        again.finish(log)
    stored = content_of(log)
    assert len(stored) == damage + 5
    after = CutLog(broker.path, COMMIT).open()
    assert (after.first_damage, content_of(after)) == (None, stored)


@pytest.mark.parametrize("start", [1, 2])
def test_a_cut_before_damage_that_is_partly_deleted_keeps_the_log_start(
    broker: CutLog, start: int
) -> None:
    bases = grown(broker)
    log = the_log(broker)
    file = Path(log.folder) / file_name(bases[1], LOG)
    file.write_bytes(b"")
    log.move_log_start(bases[1] + start)
    broker.partitions.note_log_starts([(log, log.log_start_offset)])
    broker.partitions.write_log_starts()
    (broker.path / text_files.RECOVERY_POINTS).unlink()
    again = CutLog(broker.path, COMMIT)
    log = again.open()
    assert log.first_damage == log.log_start_offset == bases[1] + start

    again.cut(log, log.first_damage)

    assert (log.log_start_offset, log.log_end_offset) == (bases[1] + start,) * 2
    assert log.first_damage is None
    assert appended(log, records(2)) == bases[1] + start
    again.finish(log)
    stored = content_of(log)
    after = CutLog(broker.path, COMMIT).open()
    assert (after.log_start_offset, content_of(after)) == (bases[1] + start, stored)


def test_a_copy_is_cut_at_the_smaller_of_both_ends_of_the_common_epoch(broker: CutLog) -> None:
    log = broker.make()
    log.start_epoch(4)
    appended(log, records(2))
    log.start_epoch(6)
    appended(log, records())

    assert cut_point(log, 4, 9) == 2  # its own epoch 4 ends at 2
    assert cut_point(log, 4, 1) == 1
    assert cut_point(log, 5, 9) == 2
    assert cut_point(log, 6, 9) == 3
    assert cut_point(log, -1, 9) == 0


def without_snapshots(broker: CutLog, rng: Random) -> PartitionLog:
    """Make a log of many segments, of which no snapshot of the producers is left."""
    log = broker.make()
    broker.grow(log, rng, 60)
    broker.finish(log)
    for file in Path(log.folder).glob("*.snapshot"):
        file.unlink()
    return log


@pytest.mark.parametrize("seed", range(6))
def test_before_a_cut_far_back_the_producers_are_read_in_steps(
    broker: CutLog, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    log = without_snapshots(broker, Random(seed))
    bases = [base for base, _, _ in log.segment_entries]
    base = bases[len(bases) // 2]
    stored = content_of(log)
    monkeypatch.setattr(truncation, "SEGMENT_CHECK_STEP_BYTES", 100)

    steps = list(broker.partitions.read_before_cut(log, base + 1))

    assert len(steps) > 3 * len(bases) // 2
    snapshot = Path(log.folder) / file_name(base, ".snapshot")
    expected = reading(broker.path / "reading", broker.turn, kept(stored, base))
    assert snapshot.read_bytes() == expected.producer_snapshot()[1]


def test_damage_before_a_cut_is_left_to_the_cut_itself(broker: CutLog) -> None:
    log = without_snapshots(broker, Random(1))
    bases = [base for base, _, _ in log.segment_entries]
    file = Path(log.folder) / file_name(bases[1], LOG)
    file.write_bytes(b"?" + file.read_bytes()[1:])

    broker.cut(log, bases[-1])

    assert log.log_end_offset == bases[-1]
    assert not list(Path(log.folder).glob("*.snapshot"))


def test_the_producers_of_what_is_left_are_known_when_a_cut_finds_damage_below_a_snapshot(
    broker: CutLog,
) -> None:
    log = broker.make()
    for number in range(6):
        batch = records(producer_id=number % 2, producer_epoch=0, base_sequence=number // 2)
        appended(log, batch)
        broker.finish(log)
        if number in (1, 3):
            broker.partitions.write_snapshot(log, *log.producer_snapshot())
    stored = content_of(log)
    file = Path(log.folder) / file_name(0, LOG)
    data = bytearray(file.read_bytes())
    for number in (3, 4):
        data[sum(map(len, stored[: number + 1])) - 1] ^= 1
    file.write_bytes(data)

    broker.cut(log, 5)

    assert log.log_end_offset == 3
    assert sorted(log.producer_ends) == [(0, 0, 2), (1, 0, 1)]
    assert [each.name for each in Path(log.folder).glob("*.snapshot")] == [f"{2:020}.snapshot"]


def test_epochs_of_what_a_crash_has_lost_are_removed_durably(broker: CutLog) -> None:
    log = broker.make()
    for epoch in (1, 2, 3):
        log.start_epoch(epoch)
        appended(log, records(2))
    broker.finish(log)
    broker.checkpoint()
    file = Path(log.folder) / file_name(0, LOG)
    file.write_bytes(content_of(log)[0])
    (broker.path / text_files.RECOVERY_POINTS).unlink()

    again = CutLog(broker.path, COMMIT, is_copy=True).open()

    assert again.log_end_offset == 2
    assert text_files.read_leader_epochs(Path(log.folder)) == [(1, 0), (2, 2)]


# ---- begun anew -------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 5, 12, 500])
def test_a_log_begun_anew_is_empty_at_the_offset(broker: CutLog, offset: int) -> None:
    grown(broker)
    log = the_log(broker)

    broker.begin_anew(log, offset)

    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (offset,) * 3
    assert {name for name in files_of(log) if name.endswith(".log")} == {file_name(offset, ".log")}
    assert log.epoch_entries == [(0, offset)]
    assert appended(log, records(2)) == offset
    broker.finish(log)
    stored = content_of(log)
    again = CutLog(broker.path, COMMIT).open()
    assert content_of(again) == stored
    assert again.log_start_offset == offset


def test_a_cut_below_the_first_segment_begins_the_log_there(broker: CutLog) -> None:
    bases = grown(broker)
    log = the_log(broker)
    broker.begin_anew(log, 100)
    appended(log, records(2))
    broker.finish(log)

    broker.cut(log, bases[1])

    assert (log.log_start_offset, log.log_end_offset) == (bases[1], bases[1])
