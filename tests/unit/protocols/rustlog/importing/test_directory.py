"""Files of the original RustLog: where they may be, and what of them is damaged."""

from pathlib import Path

import pytest

from broker.protocols.importing.report import Damage, Partition
from broker.protocols.importing.target import ImportedRecord
from broker.protocols.rustlog.importing.directory import find_segments, read_records
from tests.support.rustlog_directories import TIME_MS, segment


def test_folders_name_topics_and_partitions(tmp_path: Path) -> None:
    second = segment(tmp_path / "a" / "0", 10, [])
    first = segment(tmp_path / "a" / "0", 9, [])
    other = segment(tmp_path / "topics" / "b" / "partitions" / "3", 0, [])
    odd = segment(tmp_path / "topics" / "7", 0, [])
    own = segment(tmp_path, 0, [])
    segment(tmp_path / "a" / "tmp", 0, [])
    (tmp_path / "a" / "0" / ".cleaner_checkpoint").touch()

    assert dict(find_segments(tmp_path)) == {
        Partition("a", 0): [first, second],
        Partition("b", 3): [other],
        Partition("topics", 7): [odd],
        Partition(tmp_path.name, 0): [own],
    }


def test_a_directory_without_files_has_no_partitions(tmp_path: Path) -> None:
    (tmp_path / "a" / "0").mkdir(parents=True)
    (tmp_path / "a" / "0" / "0.log").touch()

    assert find_segments(tmp_path) == {}


def test_records_have_the_time_of_their_file(tmp_path: Path) -> None:
    files = [segment(tmp_path, 3, [b"a", b""]), segment(tmp_path, 5, [b"c"])]

    assert list(read_records(files)) == [
        ImportedRecord(3, TIME_MS, b"a"),
        ImportedRecord(4, TIME_MS, b""),
        ImportedRecord(5, TIME_MS, b"c"),
    ]


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\0\0\0", "its write was interrupted"),
        (b"\0\0\0\5" + bytes(8) + b"abcd", "its write was interrupted"),
        (b"\xff\xff\xff\xff" + bytes(100), "the rest of the file is not read"),
    ],
)
def test_what_cannot_be_a_record_ends_its_file_only(
    tmp_path: Path, tail: bytes, reason: str
) -> None:
    first, second = segment(tmp_path, 0, [b"a"], tail), segment(tmp_path, 1, [b"b"])

    one, damage, other = read_records([first, second])

    assert [each.value for each in (one, other) if isinstance(each, ImportedRecord)] == [b"a", b"b"]
    assert isinstance(damage, Damage)
    assert (damage.file, damage.position) == (first.name, 13)
    assert reason in damage.reason
