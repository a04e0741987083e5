"""The offsets of logs in the checkpoints, which must not outlive a topic."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from broker.storage.checkpoints.offset_checkpoints import OffsetCheckpoints, Offsets
from tests.support.native_log import Logs

KEY = ("topic", 0)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A directory whose last run has written both."""
    checkpoint.write_offsets(tmp_path / text_files.RECOVERY_POINTS, {KEY: 20, ("u", 1): 7})
    checkpoint.write_offsets(tmp_path / text_files.LOG_START_OFFSETS, {KEY: 10})
    return tmp_path


def on_disk(path: Path) -> Offsets:
    return Offsets(
        text_files.read_offsets(path / text_files.RECOVERY_POINTS),
        text_files.read_offsets(path / text_files.LOG_START_OFFSETS),
        text_files.read_offsets(path / text_files.HIGH_WATERMARKS),
    )


def test_written_offsets_are_read(written: Path) -> None:
    offsets = OffsetCheckpoints(written)

    assert (offsets.recovery_point(KEY), offsets.log_start(KEY)) == (20, 10)
    assert (offsets.recovery_point(("v", 0)), offsets.log_start(("v", 0))) == (0, 0)


def test_the_recovery_point_is_at_least_the_compacted_offset(written: Path) -> None:
    compacted = {KEY: 15, ("u", 1): 9, ("w", 0): 3}
    checkpoint.write_offsets(written / text_files.CLEANER_OFFSETS, compacted)

    offsets = OffsetCheckpoints(written)
    (written / text_files.RECOVERY_POINTS).unlink()
    without = OffsetCheckpoints(written)

    assert [offsets.recovery_point(key) for key in compacted] == [20, 9, 3]
    assert [without.recovery_point(key) for key in compacted] == [15, 9, 3]
    assert offsets.written_recovery_point(KEY) == 20


def test_the_files_are_written_only_after_a_change(written: Path) -> None:
    offsets = OffsetCheckpoints(written)
    file_ops.start_recording()

    offsets.write(offsets.take())
    offsets.write_log_starts()

    file_ops.stop_recording()
    assert file_ops.recorded() == []


def test_a_forgotten_log_stays_in_the_files_until_they_are_written(written: Path) -> None:
    offsets = OffsetCheckpoints(written)

    assert offsets.forget(KEY)
    assert offsets.written_recovery_point(KEY) == 20
    offsets.write(offsets.take())

    assert not offsets.forget(KEY)
    assert on_disk(written) == ({("u", 1): 7}, {}, {})


def test_an_earlier_taken_state_does_not_undo_a_later_log_start(written: Path) -> None:
    """A checkpoint syncs indexes between the two, and DeleteRecords is answered meanwhile."""
    offsets = OffsetCheckpoints(written)
    taken = offsets.take()
    offsets.note_start(KEY, 15)
    offsets.write_log_starts()

    offsets.write(taken)

    assert on_disk(written).log_starts == {KEY: 15}


@pytest.mark.parametrize("point", [None, 3])
def test_a_taken_state_is_not_written_for_a_log_forgotten_since(
    written: Path, tmp_path_factory: pytest.TempPathFactory, point: int | None
) -> None:
    offsets = OffsetCheckpoints(written)
    taken = offsets.take()
    offsets.forget(KEY)
    again = {} if point is None else {KEY: point}
    if point is not None:  # another log of that name, of which that much is synced
        offsets.note(Logs(tmp_path_factory.mktemp("logs")).create(), point)

    offsets.write(taken)

    assert on_disk(written) == (again | {("u", 1): 7}, {}, {})


def test_a_log_forgotten_during_a_write_may_be_in_the_written_file(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets = OffsetCheckpoints(written)
    fresh = ("fresh", 0)
    offsets.note_start(fresh, 4)
    write = checkpoint.write_offsets
    results: list[bool] = []

    def forget_meanwhile(path: Path, found: Mapping[tuple[str, int], int]) -> None:
        results.append(offsets.forget(fresh))
        write(path, found)

    monkeypatch.setattr(checkpoint, "write_offsets", forget_meanwhile)
    offsets.write_log_starts()

    assert results == [True]


def test_forgetting_a_log_is_written_without_advancing_recovery_points(written: Path) -> None:
    """What a checkpoint has planned is not true before it is prepared."""
    checkpoint.write_offsets(written / text_files.CLEANER_OFFSETS, {("u", 1): 9, KEY: 20})
    offsets = OffsetCheckpoints(written)
    assert offsets.recovery_point(("u", 1)) == 9
    assert offsets.forget(KEY)

    offsets.write_forgotten()

    assert on_disk(written) == ({("u", 1): 7}, {}, {})


# ---- replicas ---------------------------------------------------------------------------------


def test_high_watermarks_of_replicas_are_written_and_read(written: Path) -> None:
    offsets = OffsetCheckpoints(written)
    offsets.note_watermark(KEY, 15)
    offsets.note_watermark(("u", 1), None)

    offsets.write(offsets.take())

    text = (written / text_files.HIGH_WATERMARKS).read_text()
    assert text == "0\n1\ntopic 0 15\n"
    again = OffsetCheckpoints(written)
    assert again.high_watermark(KEY) == 15
    assert again.high_watermark(("u", 1)) is None


def test_without_replicas_there_is_no_file_of_high_watermarks(written: Path) -> None:
    offsets = OffsetCheckpoints(written)
    offsets.note_watermark(KEY, None)

    offsets.write(offsets.take())

    assert not (written / text_files.HIGH_WATERMARKS).exists()


def test_a_forgotten_log_has_no_high_watermark(written: Path) -> None:
    offsets = OffsetCheckpoints(written)
    offsets.note_watermark(KEY, 15)
    offsets.write(offsets.take())

    assert offsets.forget(KEY)
    offsets.write_forgotten()

    assert on_disk(written).high_watermarks == {}


def test_lowered_offsets_are_on_the_disk_at_once(written: Path) -> None:
    offsets = OffsetCheckpoints(written)
    offsets.note_watermark(KEY, 18)
    offsets.write(offsets.take())

    offsets.lower(KEY, 5, 4)

    found = on_disk(written)
    assert found == Offsets({KEY: 5, ("u", 1): 7}, {KEY: 4}, {KEY: 5})


def test_offsets_below_are_not_raised_by_lowering_them(written: Path) -> None:
    offsets = OffsetCheckpoints(written)
    offsets.note_watermark(KEY, 18)
    offsets.write(offsets.take())

    offsets.lower(KEY, 30, 10)

    assert on_disk(written) == Offsets({KEY: 20, ("u", 1): 7}, {KEY: 10}, {KEY: 18})


def test_points_taken_before_are_not_written_above_the_lowered_one(
    written: Path, tmp_path: Path
) -> None:
    offsets = OffsetCheckpoints(written)
    points = offsets.take()
    offsets.lower(KEY, 5, 0)
    offsets.note(Logs(tmp_path).create(), 25)  # it has grown again, and is synced up to there

    offsets.write(points)

    assert on_disk(written).recovery_points[KEY] == 5
    offsets.write(offsets.take())
    assert on_disk(written).recovery_points[KEY] == 25
