"""The file that reserves disk space: made whole or not at all, shrunk, released."""

import errno
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.storage.reserve import FILE_NAME, Reserve

MIB = 1 << 20


def taken(path: Path) -> int:
    """Return how much of the disk the reserve takes, in bytes."""
    file = path / FILE_NAME
    return file.stat().st_blocks * 512 if file.exists() else 0


def test_the_reserve_occupies_the_requested_size(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path)
    assert reserve.size() == 0

    reserve.resize(4 * MIB)

    assert reserve.size() == 4 * MIB
    assert taken(tmp_path) >= 4 * MIB


def test_the_reserve_shrinks_to_the_requested_size(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path)
    reserve.resize(4 * MIB)

    reserve.resize(MIB)
    assert reserve.size() == MIB
    assert MIB <= taken(tmp_path) < 2 * MIB
    reserve.resize(0)
    assert not (tmp_path / FILE_NAME).exists()


def test_the_reserve_is_found_by_the_next_run(tmp_path: Path) -> None:
    Reserve(tmp_path).resize(MIB)

    assert Reserve(tmp_path).size() == MIB


def test_without_disk_space_no_reserve_is_made(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path)
    reserve.resize(MIB)
    file_ops.start_recording()
    file_ops.fail("allocate", FILE_NAME, errno.ENOSPC)
    try:
        reserve.resize(4 * MIB)
    finally:
        file_ops.stop_recording()

    assert reserve.size() == 0


def test_a_failing_disk_is_reported(tmp_path: Path) -> None:
    file_ops.start_recording()
    file_ops.fail("allocate", FILE_NAME, errno.EIO)
    try:
        with pytest.raises(StorageError, match="allocate"):
            Reserve(tmp_path).resize(MIB)
    finally:
        file_ops.stop_recording()


@pytest.mark.parametrize(("free", "left"), [(0, 3 * MIB), (MIB // 2, 7 * MIB // 2), (MIB, 4 * MIB)])
def test_a_start_takes_missing_disk_space_from_the_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, left: int
) -> None:
    reserve = Reserve(tmp_path)
    reserve.resize(4 * MIB)
    monkeypatch.setattr(file_ops, "space", lambda _: (100 * MIB, free, 0, 0))

    reserve.free_disk_space(MIB)

    assert reserve.size() == left


def test_a_start_that_lacks_more_than_the_reserve_takes_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve = Reserve(tmp_path)
    reserve.resize(MIB)
    monkeypatch.setattr(file_ops, "space", lambda _: (100 * MIB, 0, 0, 0))

    reserve.free_disk_space(4 * MIB)

    assert reserve.size() == 0
    assert not (tmp_path / FILE_NAME).exists()


def test_a_missing_reserve_yields_nothing(tmp_path: Path) -> None:
    Reserve(tmp_path).free_disk_space(MIB)

    assert list(tmp_path.iterdir()) == []
