"""Where the folders of partitions are found, and where new ones are made."""

import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import DataDirError, StorageError
from broker.model.identifiers import random_id
from broker.segments import text_files
from broker.storage.checkpoints import checkpoint
from broker.storage.directories import Directories

GIB = 1 << 30
TOPIC_ID, OTHER_ID = random_id(), random_id()


@pytest.fixture
def disks(tmp_path: Path) -> list[Path]:
    """Three empty directories."""
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.mkdir()
        (path / text_files.META_PROPERTIES).touch()
    return paths


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch, disks: list[Path]) -> dict[Path, int]:
    """The free bytes of each directory, which a test may change."""
    found = dict.fromkeys(disks, 100 * GIB)
    monkeypatch.setattr(
        file_ops, "space", lambda path: (1000 * GIB, found[Path(path)], 1 << 20, 1 << 20)
    )
    return found


@pytest.fixture
def recording() -> Iterator[None]:
    file_ops.start_recording()
    yield
    file_ops.stop_recording()


def made(folder: Path, topic_id: bytes) -> Path:
    folder.mkdir()
    checkpoint.write_partition_metadata(folder, topic_id)
    return folder


@pytest.mark.usefixtures("free")
def test_new_partitions_are_spread_over_directories_of_one_size(disks: list[Path]) -> None:
    directories = Directories(disks[0], disks[1:])

    places = [directories.folder(f"t-{number}", TOPIC_ID).parent for number in range(6)]

    assert places == disks * 2


def test_a_directory_with_twice_the_free_bytes_gets_twice_the_partitions(
    disks: list[Path], free: dict[Path, int]
) -> None:
    free[disks[1]] *= 2
    directories = Directories(disks[0], disks[1:])

    places = [directories.folder(f"t-{number}", TOPIC_ID).parent for number in range(40)]

    assert [places.count(path) for path in disks] == [10, 20, 10]


@pytest.mark.usefixtures("free")
def test_a_partition_stays_where_it_is(disks: list[Path]) -> None:
    folder = made(disks[2] / "t-0", TOPIC_ID)
    directories = Directories(disks[0], disks[1:])

    assert directories.folder("t-0", TOPIC_ID) == folder
    assert directories.folder("t-1", TOPIC_ID) == directories.folder("t-1", TOPIC_ID)


@pytest.mark.usefixtures("free")
def test_the_next_partition_of_a_deleted_name_may_be_elsewhere(disks: list[Path]) -> None:
    directories = Directories(disks[0], disks[1:])
    for number in range(3):
        directories.folder(f"t-{number}", TOPIC_ID)

    directories.forget("t-1")

    assert directories.folder("u-0", OTHER_ID).parent == disks[1]


def test_a_partition_that_is_in_two_directories_is_refused(disks: list[Path]) -> None:
    made(disks[0] / "t-0", TOPIC_ID)
    made(disks[2] / "t-0", TOPIC_ID)

    with pytest.raises(DataDirError, match=r"c/t-0 are the same partition"):
        Directories(disks[0], disks[1:])


def test_of_two_folders_of_a_name_a_topic_has_its_own(disks: list[Path]) -> None:
    first = made(disks[0] / "t-0", OTHER_ID)
    second = made(disks[2] / "t-0", TOPIC_ID)
    directories = Directories(disks[0], disks[1:])

    assert directories.folder("t-0", TOPIC_ID) == second
    assert directories.folder("t-0", OTHER_ID) == first


def test_what_is_not_found_is_in_the_missing_directory_unless_it_is_new(disks: list[Path]) -> None:
    directories = Directories(disks[0], [], {disks[1]: "it is gone"})

    assert directories.folder("t-0", TOPIC_ID) == disks[1] / "t-0"
    assert directories.folder("t-1", TOPIC_ID, is_new=True) == disks[0] / "t-1"


@pytest.mark.usefixtures("recording")
def test_a_directory_that_cannot_be_read_is_missing(disks: list[Path]) -> None:
    made(disks[1] / "t-0", TOPIC_ID)
    file_ops.fail("sync_folder", str(disks[1]), errno.EIO)
    directories = Directories(disks[0], disks[1:])

    directories.settle()

    assert list(directories) == [disks[0], disks[2]]
    assert list(directories.missing) == [disks[1]]
    assert not directories.has("t-0")


@pytest.mark.usefixtures("recording", "free")
@pytest.mark.parametrize(("error", "is_avoided"), [(errno.EIO, True), (errno.ENOSPC, False)])
def test_nothing_new_is_made_where_writes_fail(
    disks: list[Path], error: int, *, is_avoided: bool
) -> None:
    directories = Directories(disks[0], disks[1:])
    folders = [directories.folder(f"t-{number}", TOPIC_ID) for number in range(3)]
    file_ops.fail("open", f"{disks[1]}/*", error)

    directories.check(folders)

    places = {directories.folder(f"u-{number}", TOPIC_ID).parent for number in range(9)}
    assert (disks[1] not in places) is is_avoided


@pytest.mark.usefixtures("free")
def test_nothing_new_is_made_in_a_directory_that_has_gone(disks: list[Path]) -> None:
    directories = Directories(disks[0], disks[1:])
    shutil.rmtree(disks[1])

    directories.check([disks[1] / "t-0"])

    assert not directories.takes(disks[1])


@pytest.mark.usefixtures("recording")
def test_a_data_directory_that_cannot_be_read_is_a_failure(disks: list[Path]) -> None:
    directories = Directories(disks[0], disks[1:])
    file_ops.fail("sync_folder", str(disks[0]), errno.EIO)

    with pytest.raises(StorageError):
        directories.settle()
