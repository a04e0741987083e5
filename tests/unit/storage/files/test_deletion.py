"""The folders of deleted topics: renamed, and removed in limited steps."""

import errno
from collections import deque
from contextlib import nullcontext
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.model.identifiers import id_to_text
from broker.storage.checkpoints import checkpoint
from broker.storage.files import deletion
from broker.storage.files.deletion import DeletedFolders, deleted_folder

ID = bytes(range(1, 17))
OTHER_ID = bytes(range(2, 18))


def make(path: Path, name: str, owner: bytes | None = ID, files: int = 3) -> Path:
    """Make a partition's folder."""
    folder = path / name
    folder.mkdir()
    if owner is not None:
        checkpoint.write_partition_metadata(folder, owner)
    for number in range(files):
        (folder / f"{number:020}.log").write_bytes(b"records")
    return folder


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.iterdir())


def test_folders_are_renamed_with_the_topics_id(tmp_path: Path) -> None:
    for partition in range(3):
        make(tmp_path, f"t-{partition}")

    DeletedFolders(tmp_path).put_away("t", ID, range(3), is_name_taken=False)

    assert names(tmp_path) == [f"t-{n}.{id_to_text(ID)}-delete" for n in range(3)]


def test_an_already_renamed_folder_is_left_alone(tmp_path: Path) -> None:
    make(tmp_path, "t-1")
    folders = DeletedFolders(tmp_path)

    for _ in range(2):
        folders.put_away("t", ID, range(3), is_name_taken=False)

    assert names(tmp_path) == [f"t-1.{id_to_text(ID)}-delete"]


def test_a_partition_moves_away_although_its_folder_of_an_earlier_move_is_still_there(
    tmp_path: Path,
) -> None:
    folders = DeletedFolders(tmp_path)
    earlier = make(tmp_path, "t-1", files=5)
    assert folders.put_away_moved("t", ID, 1) == [deleted_folder(earlier, ID)]
    make(tmp_path, "t-1", files=2)

    [renamed] = folders.put_away_moved("t", ID, 1)

    assert names(tmp_path) == [renamed.name]
    assert len([*renamed.glob("*.log")]) == 2


@pytest.mark.parametrize(
    ("owner", "is_name_taken", "goes"),
    [
        (ID, True, True),
        (OTHER_ID, True, False),
        (OTHER_ID, False, False),
        (None, True, False),
        (None, False, True),
    ],
)
def test_the_folder_of_a_later_topic_of_the_same_name_stays(
    tmp_path: Path, owner: bytes | None, is_name_taken: bool, goes: bool
) -> None:
    make(tmp_path, "t-0", owner)

    DeletedFolders(tmp_path).put_away("t", ID, [0], is_name_taken=is_name_taken)

    assert (names(tmp_path) != ["t-0"]) is goes


def test_a_long_name_is_truncated_so_that_every_partition_has_its_own(tmp_path: Path) -> None:
    topic = "n" * 249
    for partition in (0, 9_999):
        make(tmp_path, f"{topic}-{partition}")
    folders = DeletedFolders(tmp_path)

    folders.put_away(topic, ID, [0, 9_999], is_name_taken=False)

    assert len(names(tmp_path)) == 2
    assert all(folder.is_dir() for folder in folders.waiting(topic, ID, [0, 9_999]))


def test_a_step_removes_a_limited_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "FILES_REMOVED_PER_STEP", 4)
    left = deque(make(tmp_path, f"t-{number}-delete", files=2) for number in range(5))
    folders = DeletedFolders(tmp_path)
    steps = 0

    while left:
        before = sum(1 for _ in tmp_path.rglob("*"))
        folders.remove_some(left)
        assert 0 < before - sum(1 for _ in tmp_path.rglob("*")) <= 4
        steps += 1

    assert (names(tmp_path), steps) == ([], 5)


def test_a_missing_folder_is_not_an_error(tmp_path: Path) -> None:
    left = deque([tmp_path / "t-0-delete", make(tmp_path, "t-1-delete")])

    DeletedFolders(tmp_path).remove_some(left)

    assert not left
    assert names(tmp_path) == []


def test_a_file_that_cannot_be_removed_is_an_error_and_can_be_retried(tmp_path: Path) -> None:
    left = deque([make(tmp_path, "t-0-delete")])
    folders = DeletedFolders(tmp_path)
    file_ops.start_recording()
    file_ops.fail("remove", ".log", errno.EIO)

    with pytest.raises(StorageError):
        folders.remove_some(left)
    file_ops.stop_recording()
    folders.remove_some(left)

    assert names(tmp_path) == []


def test_the_name_of_a_deleted_folder_is_not_a_partitions(tmp_path: Path) -> None:
    assert not deleted_folder(tmp_path / "t-0", ID).name.rpartition("-")[2].isdigit()


def test_a_folder_that_another_process_has_is_not_renamed(tmp_path: Path) -> None:
    for partition in range(2):
        make(tmp_path, f"t-{partition}")
    folders = DeletedFolders(tmp_path, lambda _, number: nullcontext(enter_result=number == 1))

    folders.put_away("t", ID, range(2), is_name_taken=False)

    assert names(tmp_path) == ["t-0", f"t-1.{id_to_text(ID)}-delete"]


def test_files_that_another_process_has_removed_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make(tmp_path, "t-0", files=0)
    listed = [*names(folder), "removed meanwhile"]
    monkeypatch.setattr(deletion, "_first_names", lambda *_: iter(listed))

    DeletedFolders(tmp_path).remove_some(deque([folder]))

    assert names(tmp_path) == []


@pytest.mark.parametrize("operation", ["rename", "sync_folder", "list_folder", "remove"])
def test_another_directory_that_fails_is_left_to_the_next_start(
    tmp_path: Path, operation: str
) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    for number, path in enumerate([home, other, home]):
        path.mkdir(exist_ok=True)
        make(path, f"t-{number}")
    folders = DeletedFolders(home, others=[other])
    file_ops.start_recording()
    file_ops.fail(operation, f"{other}*", errno.EIO, times=100)

    folders.put_away("t", ID, range(3), is_name_taken=False)
    folders.sync()
    left = deque(folders.waiting("t", ID, range(3)))
    while left:
        folders.remove_some(left)
    file_ops.stop_recording()

    assert names(home) == []
    assert len(names(other)) == 1
    assert not folders.is_complete
    again = DeletedFolders(home, others=[other])
    again.put_away("t", ID, range(3), is_name_taken=False)
    left = deque(again.waiting("t", ID, range(3)))
    while left:
        again.remove_some(left)
    assert names(other) == []
    assert again.is_complete
