"""What storage relies on when it touches a file, and what the recording shows of it."""

import errno
import os
import resource
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import StorageError


def operations(*names: str) -> list[tuple[str, str]]:
    """Return the recorded (operation, file name) pairs, only of these operations if given."""
    return [
        (op, Path(path).name) for op, path, *_ in file_ops.recorded() if not names or op in names
    ]


# ---- files and folders -----------------------------------------------------------------------


def test_a_file_written_atomically_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"

    file_ops.write_file_atomic(path, b"0\n1\n")

    assert file_ops.read_file(path) == b"0\n1\n"
    assert file_ops.size(path) == 4


def test_an_atomic_write_replaces_the_content_and_leaves_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    file_ops.write_file_atomic(path, b"a longer first content")

    file_ops.write_file_atomic(path, bytearray(b"second"))

    assert file_ops.read_file(path) == b"second"
    assert file_ops.list_folder(tmp_path) == ["checkpoint"]


def test_an_empty_file_reads_as_no_bytes(tmp_path: Path) -> None:
    file_ops.write_file_atomic(tmp_path / "empty", b"")

    assert file_ops.read_file(tmp_path / "empty") == b""


def test_files_and_folders_are_accessible_to_the_owner_alone(tmp_path: Path) -> None:
    umask = os.umask(0)
    try:
        file_ops.make_folder(tmp_path / "folder")
        file_ops.write_file_atomic(tmp_path / "folder" / "file", b"")
    finally:
        os.umask(umask)

    assert (tmp_path / "folder").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "folder" / "file").stat().st_mode & 0o777 == 0o600


def test_making_an_existing_folder_is_not_an_error(tmp_path: Path) -> None:
    file_ops.make_folder(tmp_path / "folder")

    file_ops.make_folder(tmp_path / "folder")

    assert file_ops.list_folder(tmp_path) == ["folder"]


def test_a_removed_file_is_gone(tmp_path: Path) -> None:
    file_ops.write_file_atomic(tmp_path / "file", b"x")
    file_ops.make_folder(tmp_path / "folder")

    file_ops.remove(tmp_path / "file")
    file_ops.remove(tmp_path / "folder")

    assert file_ops.list_folder(tmp_path) == []


def test_a_folder_is_renamed_with_its_contents(tmp_path: Path) -> None:
    file_ops.make_folder(tmp_path / "orders-0")
    file_ops.write_file_atomic(tmp_path / "orders-0" / "file", b"x")

    file_ops.rename(tmp_path / "orders-0", tmp_path / "orders-0.deleted")

    assert file_ops.read_file(tmp_path / "orders-0.deleted" / "file") == b"x"


def test_rename_all_and_remove_all_skip_missing_files(tmp_path: Path) -> None:
    names = [str(tmp_path / name) for name in ("a", "missing", "b")]
    for name in ("a", "b", "kept"):
        file_ops.write_file_atomic(tmp_path / name, name.encode())

    file_ops.rename_all(names, [name + ".deleted" for name in names])
    assert file_ops.list_folder(tmp_path) == ["a.deleted", "b.deleted", "kept"]
    assert file_ops.read_file(tmp_path / "b.deleted") == b"b"

    file_ops.remove_all(name + ".deleted" for name in names)
    assert file_ops.list_folder(tmp_path) == ["kept"]


def test_rename_all_and_remove_all_accept_empty_lists() -> None:
    file_ops.rename_all([], [])
    file_ops.remove_all([])


def test_rename_all_needs_a_target_for_each_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="target"):
        file_ops.rename_all([str(tmp_path / "a")], [])


@pytest.mark.usefixtures("recording")
def test_rename_all_stops_at_the_first_failure(tmp_path: Path) -> None:
    names = [str(tmp_path / name) for name in ("a", "b", "c")]
    for name in names:
        file_ops.write_file_atomic(name, b"x")
    file_ops.fail("rename", "/b", errno.EIO)

    with pytest.raises(StorageError, match=r"rename .*/b"):
        file_ops.rename_all(names, [name + ".deleted" for name in names])

    assert file_ops.list_folder(tmp_path) == ["a.deleted", "b", "c"]


def test_a_missing_file_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        file_ops.read_file(tmp_path / "missing")

    assert raised.value.errno == errno.ENOENT
    assert raised.value.filename == str(tmp_path / "missing")


def test_a_missing_folder_is_file_not_found(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_ops.list_folder(tmp_path / "missing")
    with pytest.raises(FileNotFoundError):
        file_ops.sync_folder(tmp_path / "missing")


def test_an_error_names_operation_path_and_reason(tmp_path: Path) -> None:
    file_ops.make_folder(tmp_path / "folder")
    file_ops.write_file_atomic(tmp_path / "folder" / "file", b"")

    with pytest.raises(StorageError) as raised:
        file_ops.remove(tmp_path / "folder")

    assert str(raised.value) == f"remove {tmp_path}/folder: Directory not empty"
    assert isinstance(raised.value.__cause__, OSError)
    assert raised.value.__cause__.errno == errno.ENOTEMPTY


def test_a_short_write_is_continued_until_the_error_appears(tmp_path: Path) -> None:
    """Above the file size limit write(2) is first short, and only the next call fails: EFBIG."""
    path = tmp_path / "file"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"write .*: File too large"):
            file_ops.write_file_atomic(path, bytes(200))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert file_ops.list_folder(tmp_path) == []


# ---- recording -------------------------------------------------------------------------------


@pytest.mark.usefixtures("recording")
def test_an_atomic_write_syncs_the_file_before_the_rename_and_the_folder_after(
    tmp_path: Path,
) -> None:
    file_ops.write_file_atomic(tmp_path / "file", b"content")

    assert operations() == [
        ("open", "file.tmp"),
        ("write", "file.tmp"),
        ("sync", "file.tmp"),
        ("close", "file.tmp"),
        ("rename", "file.tmp"),
        ("sync_folder", tmp_path.name),
    ]


@pytest.mark.usefixtures("recording")
def test_a_recorded_operation_has_its_bytes_position_and_result(tmp_path: Path) -> None:
    path = os.path.realpath(tmp_path / "file")
    file_ops.write_file_atomic(path, b"content")

    recorded = {operation[0]: operation for operation in file_ops.recorded()}

    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    opened = recorded["open"]
    assert opened[:-1] == ("open", path + ".tmp", flags, 0o600, b"")
    assert opened[-1] >= 0
    assert recorded["write"] == ("write", path + ".tmp", 0, 7, b"content", 7)
    assert recorded["rename"] == ("rename", path + ".tmp", 0, 0, os.fsencode(path), 0)


@pytest.mark.usefixtures("recording")
def test_recorded_paths_do_not_depend_on_how_a_file_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    monkeypatch.chdir(tmp_path)

    file_ops.write_file_atomic("link/file", b"")
    file_ops.remove("folder/file")

    folder = os.path.realpath(tmp_path / "folder")
    assert {path for _, path, *_ in file_ops.recorded()} == {
        folder,
        folder + "/file",
        folder + "/file.tmp",
    }


@pytest.mark.usefixtures("recording")
def test_a_failed_operation_is_recorded_with_its_errno(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_ops.size(tmp_path / "missing")

    assert [(op, result) for op, *_, result in file_ops.recorded()] == [("open", -errno.ENOENT)]


def test_a_new_recording_discards_the_old_one(tmp_path: Path) -> None:
    file_ops.start_recording()
    file_ops.make_folder(tmp_path / "a")
    file_ops.stop_recording()
    file_ops.make_folder(tmp_path / "b")
    assert operations() == [("make_folder", "a")]

    file_ops.start_recording()
    file_ops.stop_recording()

    assert operations() == []


@pytest.mark.usefixtures("recording")
def test_operations_that_were_taken_are_not_in_the_record_and_planned_faults_stay(
    tmp_path: Path,
) -> None:
    file_ops.fail("make_folder", "bad", errno.EIO)
    file_ops.make_folder(tmp_path / "a")

    assert [op for op, *_ in file_ops.take_recorded()] == ["make_folder"]
    assert file_ops.recorded() == []

    with pytest.raises(StorageError):
        file_ops.make_folder(tmp_path / "bad")
    assert [result for *_, result in file_ops.take_recorded()] == [-errno.EIO]


# ---- faults ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("op", ["open", "write", "sync", "close", "rename"])
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_failed_atomic_write_keeps_the_old_content(tmp_path: Path, op: str, number: int) -> None:
    path = tmp_path / "file"
    file_ops.write_file_atomic(path, b"old")
    file_ops.fail(op, "file.tmp", number)

    with pytest.raises(StorageError, match=f"^{op} .*file.tmp: {os.strerror(number)}$"):
        file_ops.write_file_atomic(path, b"new")

    assert file_ops.read_file(path) == b"old"
    assert file_ops.list_folder(tmp_path) == ["file"]


@pytest.mark.usefixtures("recording")
def test_a_failed_folder_sync_is_an_error_although_the_new_content_is_in_place(
    tmp_path: Path,
) -> None:
    file_ops.fail("sync_folder", tmp_path.name, errno.EIO)

    with pytest.raises(StorageError, match=r"^sync_folder .*: Input/output error$"):
        file_ops.write_file_atomic(tmp_path / "file", b"new")

    assert file_ops.read_file(tmp_path / "file") == b"new"


@pytest.mark.usefixtures("recording")
def test_a_failed_sync_is_not_tried_again(tmp_path: Path) -> None:
    file_ops.fail("sync", "file", errno.EIO)

    with pytest.raises(StorageError):
        file_ops.write_file_atomic(tmp_path / "file", b"new")

    assert operations("sync") == [("sync", "file.tmp")]


@pytest.mark.usefixtures("recording")
def test_a_hidden_failure_is_recorded_and_looks_like_success(tmp_path: Path) -> None:
    file_ops.fail("write", "file", errno.EIO, is_hidden=True)

    file_ops.write_file(tmp_path / "file", b"lost")

    assert file_ops.read_file(tmp_path / "file") == b""
    results = [result for op, _, _, _, _, result in file_ops.recorded() if op == "write"]
    assert results == [-errno.EIO]


@pytest.mark.usefixtures("recording")
def test_only_a_write_or_a_sync_failure_can_be_hidden(tmp_path: Path) -> None:
    with pytest.raises(StorageError):
        file_ops.fail("open", "file", errno.EIO, is_hidden=True)


@pytest.mark.usefixtures("recording")
def test_a_folder_that_cannot_be_listed_is_an_error_with_its_name(tmp_path: Path) -> None:
    file_ops.fail("list_folder", tmp_path.name, errno.EACCES)

    with pytest.raises(StorageError, match=f"^list_folder {tmp_path}: Permission denied$"):
        file_ops.list_folder(tmp_path)


@pytest.mark.usefixtures("recording")
def test_an_injected_fault_starts_and_ends_at_the_planned_call(tmp_path: Path) -> None:
    file_ops.fail("make_folder", "orders-", errno.EDQUOT, after=1, times=2)

    failed = []
    for partition in range(5):
        try:
            file_ops.make_folder(tmp_path / f"orders-{partition}")
        except StorageError:
            failed.append(partition)

    assert failed == [1, 2]


@pytest.mark.usefixtures("recording")
def test_an_injected_fault_affects_only_its_operation_and_path(tmp_path: Path) -> None:
    file_ops.fail("remove", "orders-1", errno.EIO)

    file_ops.make_folder(tmp_path / "orders-1")
    file_ops.make_folder(tmp_path / "orders-2")
    file_ops.remove(tmp_path / "orders-2")

    with pytest.raises(StorageError):
        file_ops.remove(tmp_path / "orders-1")
    assert file_ops.list_folder(tmp_path) == ["orders-1"]


@pytest.mark.usefixtures("recording")
def test_a_rename_fault_matches_its_target_too(tmp_path: Path) -> None:
    file_ops.make_folder(tmp_path / "a")
    file_ops.fail("rename", "/b", errno.EIO)

    with pytest.raises(StorageError, match="rename"):
        file_ops.rename(tmp_path / "a", tmp_path / "b")


@pytest.mark.usefixtures("recording")
def test_an_injected_missing_file_is_file_not_found(tmp_path: Path) -> None:
    file_ops.fail("sync_folder", tmp_path.name, errno.ENOENT)

    with pytest.raises(FileNotFoundError):
        file_ops.sync_folder(tmp_path)


@pytest.mark.usefixtures("recording")
def test_an_unknown_operation_cannot_be_made_to_fail() -> None:
    with pytest.raises(ValueError, match="'fsnyc'"):
        file_ops.fail("fsnyc", "", errno.EIO)


@pytest.mark.usefixtures("recording")
def test_the_number_of_planned_faults_is_limited() -> None:
    for _ in range(16):
        file_ops.fail("open", "never", errno.EIO)

    with pytest.raises(StorageError):
        file_ops.fail("open", "never", errno.EIO)


def test_faults_can_only_be_injected_while_recording() -> None:
    with pytest.raises(RuntimeError):
        file_ops.fail("open", "", errno.EIO)


def test_faults_end_with_the_recording(tmp_path: Path) -> None:
    file_ops.start_recording()
    file_ops.fail("make_folder", "", errno.EIO)
    file_ops.stop_recording()

    file_ops.make_folder(tmp_path / "folder")

    assert file_ops.list_folder(tmp_path) == ["folder"]
