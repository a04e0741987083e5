"""The offsets of logs in the two checkpoints, which must not outlive a topic."""

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
    assert on_disk(written) == ({("u", 1): 7}, {})


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

    assert on_disk(written) == (again | {("u", 1): 7}, {})


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

    assert on_disk(written) == ({("u", 1): 7}, {})
