"""Recorded damage of closed segments: kept, used only with its own log, deleted with it."""

import errno
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.segments.names import DAMAGE, LOG, file_name
from broker.storage.files import damages, segment_files
from broker.storage.files.damages import Range
from tests.support.native_log import Logs, appended, records

SIZE = 100
SOME = [Range(7, 9, 10, 30), Range(12, 13, 50, 60)]


@pytest.fixture
def inode(tmp_path: Path) -> int:
    """Return the inode of the log of a segment at offset 7."""
    log = tmp_path / file_name(7, LOG)
    log.write_bytes(bytes(SIZE))
    return log.stat().st_ino


def test_recorded_damage_is_read_as_it_was_written(tmp_path: Path, inode: int) -> None:
    assert damages.write(tmp_path, 7, SIZE, SOME, inode)
    assert damages.read(tmp_path, 7) == SOME


def test_without_the_file_no_damage_is_known(tmp_path: Path) -> None:
    assert damages.read(tmp_path, 7) == []


def test_a_changed_file_gives_no_damage(tmp_path: Path, inode: int) -> None:
    damages.write(tmp_path, 7, SIZE, SOME, inode)
    file = tmp_path / file_name(7, DAMAGE)
    content = file.read_bytes()
    for place in range(len(content) - 1):
        file.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert damages.read(tmp_path, 7) == [], place


def test_damage_recorded_for_a_log_file_of_another_size_is_ignored(
    tmp_path: Path, inode: int
) -> None:
    damages.write(tmp_path, 7, SIZE, SOME, inode)
    (tmp_path / file_name(7, LOG)).write_bytes(bytes(SIZE + 1))
    assert damages.read(tmp_path, 7) == []


def test_damage_found_in_another_file_is_not_written(tmp_path: Path, inode: int) -> None:
    assert not damages.write(tmp_path, 7, SIZE, SOME, inode + 1)
    assert damages.read(tmp_path, 7) == []


def test_the_damage_file_is_deleted_with_its_segment(tmp_path: Path, inode: int) -> None:
    damages.write(tmp_path, 7, SIZE, SOME, inode)
    segment_files.mark_deleted(tmp_path, [7])
    assert damages.read(tmp_path, 7) == []
    segment_files.remove_deleted(tmp_path, [7])
    assert list(tmp_path.iterdir()) == []


def test_an_unreadable_damage_file_does_not_prevent_opening_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    logs = Logs(tmp_path)
    log = logs.create(segment_bytes_max=len(records()))
    for _ in range(3):
        appended(log, records())
    logs.settle(log)
    folder = logs.folder()
    found = (folder / file_name(1, LOG)).stat()
    damages.write(folder, 1, found.st_size, [Range(1, 2, 0, found.st_size)], found.st_ino)
    file_ops.start_recording()
    file_ops.fail("read", DAMAGE, errno.EIO)
    try:
        damages.restore(log, [1])
    finally:
        file_ops.stop_recording()
    assert "known damage cannot be read" in caplog.text
    assert log.damaged_ranges == []

    damages.restore(log, [1])

    assert log.damaged_ranges == [(1, 2)]
