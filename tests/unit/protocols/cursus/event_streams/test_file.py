"""The file of streams: what is written is found, whatever the keys; only whole writes count."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.model.stream_limits import EVENTS_WRITTEN_PER_STATEMENT, STREAM_FILES_OPEN_MAX
from broker.protocols.cursus.event_streams.file import (
    FILE_NAME,
    Covered,
    DamagedFileError,
    Snapshot,
    StreamFile,
    StreamFiles,
)

KEYS = [b"a", b'"', b"\\", b"'", b"\xff\xfe", "é".encode(), b"\x01", b"[1]", b"$[0]", b"x" * 1024]
MANY = 100_000
TOPIC_ID = "id"


@pytest.fixture
def recording() -> Iterator[None]:
    file_ops.start_recording()
    yield
    file_ops.stop_recording()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[StreamFile]:
    file = StreamFile(tmp_path)
    file.begin(TOPIC_ID)
    yield file
    file.close()


@pytest.mark.parametrize("key", KEYS)
def test_events_of_any_key_are_found(file: StreamFile, key: bytes) -> None:
    file.write({key: [0, 5, 7], b"other": [3, 6]}, {}, 8, 1)
    file.write({key: [2, 9]}, {key: Snapshot(2, 10)}, 11, 1)

    assert file.versions([key, b"none", b"other"]) == [3, 0, 4]
    assert file.offsets(key, 1, MANY) == [5, 7, 9]
    assert file.offsets(key, 3, MANY) == [9]
    assert file.offsets(key, 1, 2) == [5, 7]
    assert file.offsets(b"none", 1, MANY) == file.offsets(key, 4, MANY) == []
    assert file.snapshot(key) == Snapshot(2, 10)
    assert file.snapshot(b"other") is None
    assert file.covered() == Covered(TOPIC_ID, 11, 1)


def test_the_last_snapshot_counts_and_may_be_of_an_older_version(file: StreamFile) -> None:
    file.write({b"k": [0, 1, 2, 3]}, {b"k": Snapshot(3, 4)}, 5, 0)
    file.write({}, {b"k": Snapshot(1, 5)}, 6, 0)

    assert file.snapshot(b"k") == Snapshot(1, 5)


def test_a_write_of_many_events_is_made_in_several_statements(file: StreamFile) -> None:
    count = 2 * EVENTS_WRITTEN_PER_STATEMENT + 3
    offsets = list(range(100, 100 + count))
    others = {b"k%05d" % number: [0, number] for number in range(count)}

    file.write({b"long": [7, *offsets], **others}, {}, 10**6, 0)

    assert file.offsets(b"long", 8, MANY) == offsets
    assert file.versions([b"long", b"k00000", b"k%05d" % (count - 1)]) == [7 + count, 1, 1]


@pytest.mark.parametrize("events_max", [1, 2, 7, MANY])
def test_all_keys_are_found_once_and_in_parts(file: StreamFile, events_max: int) -> None:
    assert file.keys(b"", events_max) == []
    file.write({key: [0, *range(number + 1)] for number, key in enumerate(KEYS)}, {}, 9, 1)
    file.write({b"no first version": [3, 11, 12]}, {}, 12, 1)

    found: list[bytes] = []
    while part := file.keys(found[-1] if found else b"", events_max):
        assert len(part) <= events_max
        found += part

    assert found == sorted([*KEYS, b"no first version"])


def test_a_missing_version_is_an_error(file: StreamFile) -> None:
    file.write({b"k": [0, 1, 2]}, {}, 3, 0)
    file.write({b"k": [3, 4]}, {}, 5, 0)

    assert file.versions([b"k"]) == [4]
    assert file.offsets(b"k", 4, MANY) == [4]
    assert file.offsets(b"k", 1, 2) == [1, 2]
    for first in (1, 2, 3):
        with pytest.raises(StorageError, match="a version of a stream is missing"):
            file.offsets(b"k", first, MANY)


def test_a_file_that_is_opened_again_has_what_was_written(tmp_path: Path) -> None:
    files = StreamFiles()
    files.begin_anew(tmp_path, "id")
    files.run(tmp_path, lambda file: file.write({b"k": [0, 1]}, {}, 2, 0))
    files.close_all()

    assert files.run(tmp_path, StreamFile.covered) == Covered("id", 2, 0)
    assert files.run(tmp_path, lambda file: file.versions([b"k"])) == [1]
    files.begin_anew(tmp_path, "other")
    assert files.run(tmp_path, StreamFile.covered) == Covered("other", 0, -1)
    assert files.run(tmp_path, lambda file: file.versions([b"k"])) == [0]
    files.close_all()


def test_a_damaged_file_is_removed(tmp_path: Path) -> None:
    files = StreamFiles()
    (tmp_path / FILE_NAME).write_bytes(b"no database" * 1000)

    with pytest.raises(DamagedFileError):
        files.run(tmp_path, StreamFile.covered)

    assert files.run(tmp_path, StreamFile.covered) == Covered("", 0, -1)
    files.close_all()


@pytest.mark.parametrize(
    "use",
    [
        lambda file: file.versions([b"k"]),
        lambda file: file.keys(b"", MANY),
        lambda file: file.offsets(b"k", 1, MANY),
        lambda file: file.snapshot(b"k"),
        lambda file: file.write({b"k": [1, 5]}, {}, 6, 1),
    ],
)
def test_a_file_that_was_lost_while_it_was_closed_says_nothing(
    tmp_path: Path, use: Callable[[StreamFile], object]
) -> None:
    files = StreamFiles()
    files.begin_anew(tmp_path, TOPIC_ID)
    files.run(tmp_path, lambda file: file.write({b"k": [0, 1]}, {}, 2, 1))
    files.close(tmp_path)
    files.run(tmp_path, use)
    files.close(tmp_path)
    (tmp_path / FILE_NAME).unlink()

    with pytest.raises(DamagedFileError, match="the one before is gone"):
        files.run(tmp_path, use)
    assert files.run(tmp_path, StreamFile.covered) == Covered("", 0, -1)
    files.close_all()


def test_a_database_is_gone_for_good_before_the_log_of_its_changes(
    tmp_path: Path, recording: None
) -> None:
    for suffix in ("", "-wal"):
        (tmp_path / (FILE_NAME + suffix)).write_bytes(b"x")

    StreamFiles().remove(tmp_path)

    done = [(op, Path(path).name) for op, path, *_ in file_ops.recorded()]
    changes = [each for each in done if each[0] in {"remove", "sync_folder"}]
    assert changes == [
        ("remove", FILE_NAME),
        ("sync_folder", tmp_path.name),
        ("remove", f"{FILE_NAME}-wal"),
        ("sync_folder", tmp_path.name),
    ]


def test_a_few_files_are_open_at_a_time(tmp_path: Path) -> None:
    files = StreamFiles()
    folders = [tmp_path / str(number) for number in range(STREAM_FILES_OPEN_MAX + 3)]
    for number, folder in enumerate(folders):
        folder.mkdir()
        files.begin_anew(folder, str(number))

    is_open = [(each / f"{FILE_NAME}-wal").exists() for each in folders]
    assert is_open == [False] * 3 + [True] * STREAM_FILES_OPEN_MAX
    assert files.run(folders[0], StreamFile.covered).topic_id == "0"
    files.close_all()
    assert not any((each / f"{FILE_NAME}-wal").exists() for each in folders)
