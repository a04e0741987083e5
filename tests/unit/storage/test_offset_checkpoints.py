"""The offsets of logs in the two checkpoints, and that they do not outlive a topic."""

from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.storage import checkpoint
from broker.storage.offset_checkpoints import OffsetCheckpoints, Offsets

KEY = ("t", 0)


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """A directory whose last life has written both."""
    checkpoint.write_offsets(tmp_path / checkpoint.RECOVERY_POINTS, {KEY: 20, ("u", 1): 7})
    checkpoint.write_offsets(tmp_path / checkpoint.LOG_START_OFFSETS, {KEY: 10})
    return tmp_path


def on_disk(path: Path) -> Offsets:
    return Offsets(
        checkpoint.read_offsets(path / checkpoint.RECOVERY_POINTS),
        checkpoint.read_offsets(path / checkpoint.LOG_START_OFFSETS),
    )


def test_what_was_written_is_known(written: Path) -> None:
    offsets = OffsetCheckpoints(written)

    assert (offsets.recovery_point(KEY), offsets.log_start(KEY)) == (20, 10)
    assert (offsets.recovery_point(("v", 0)), offsets.log_start(("v", 0))) == (0, 0)


def test_what_is_compacted_was_synced_even_if_the_recovery_points_are_lost(written: Path) -> None:
    compacted = {KEY: 15, ("u", 1): 9, ("w", 0): 3}
    checkpoint.write_offsets(written / checkpoint.CLEANER_OFFSETS, compacted)

    offsets = OffsetCheckpoints(written)
    (written / checkpoint.RECOVERY_POINTS).unlink()
    without = OffsetCheckpoints(written)

    assert [offsets.recovery_point(key) for key in compacted] == [20, 9, 3]
    assert [without.recovery_point(key) for key in compacted] == [15, 9, 3]
    assert offsets.written_recovery_point(KEY) == 20


def test_the_files_are_written_only_when_something_changed(written: Path) -> None:
    offsets = OffsetCheckpoints(written)
    file_ops.start_recording()

    offsets.write(offsets.take())
    offsets.write_log_starts()

    file_ops.stop_recording()
    assert file_ops.recorded() == []


def test_a_forgotten_log_is_told_of_by_the_files_until_they_are_written(written: Path) -> None:
    offsets = OffsetCheckpoints(written)

    assert offsets.forget(KEY)
    assert offsets.written_recovery_point(KEY) == 20
    offsets.write(offsets.take())

    assert not offsets.forget(KEY)
    assert on_disk(written) == ({("u", 1): 7}, {})
