"""The file syscalls that native code calls (file_ops_table.h), called by their C types."""

import ctypes
import errno
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import StorageError

INT, INT64, SIZE, TEXT, ADDRESS = (
    ctypes.c_int,
    ctypes.c_int64,
    ctypes.c_size_t,
    ctypes.c_char_p,
    ctypes.c_void_p,
)


# The first members of FileTable, and the last, in their order.
MEMBERS = {"open": 0, "close": 1, "pread": 2, "pwrite": 3, "allocate": 4, "truncate": 5, "size": 6}
MEMBERS["send"] = 16


def table_in_use() -> ctypes.Array[ctypes.c_void_p]:
    """Return the members of the FileTable that file_ops exports to the modules that cimport it."""
    get_name = ctypes.pythonapi.PyCapsule_GetName
    get_name.restype, get_name.argtypes = TEXT, [ctypes.py_object]
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ADDRESS, [ctypes.py_object, TEXT]
    capsule = file_ops.__pyx_capi__["file_table"]
    file_table = ctypes.CFUNCTYPE(ctypes.POINTER(ADDRESS * 17))
    return file_table(get_pointer(capsule, get_name(capsule)))().contents


def c_function(name: str, result: type | None, *arguments: type) -> Callable[..., int]:
    """Return what calls a function of the table that is in use at the call."""
    function = ctypes.CFUNCTYPE(result, *arguments)

    def call(*given: object) -> int:
        returned: int = function(table_in_use()[MEMBERS[name]] or 0)(*given)
        return returned

    return call


file_open = c_function("open", INT, TEXT, INT, INT)
file_close = c_function("close", INT, INT)
file_pread = c_function("pread", ctypes.c_ssize_t, INT, TEXT, SIZE, INT64)
file_pwrite = c_function("pwrite", ctypes.c_ssize_t, INT, TEXT, SIZE, INT64)
file_allocate = c_function("allocate", INT, INT, INT64, INT64)
file_truncate = c_function("truncate", INT, INT, INT64)
file_size = c_function("size", INT64, INT)
file_send = c_function("send", ctypes.c_ssize_t, INT, INT, INT64, SIZE)


@pytest.fixture
def fd(tmp_path: Path) -> Iterator[int]:
    """Open an empty file called segment."""
    opened = file_open(os.fsencode(tmp_path / "segment"), os.O_RDWR | os.O_CREAT, 0o600)
    assert opened >= 0
    yield opened
    file_close(opened)


def test_a_failure_returns_the_negative_errno(tmp_path: Path) -> None:
    assert file_open(os.fsencode(tmp_path / "missing"), os.O_RDONLY, 0) == -errno.ENOENT
    assert file_pwrite(-1, b"x", 1, 0) == -errno.EBADF
    assert file_pread(-1, ctypes.create_string_buffer(1), 1, 0) == -errno.EBADF
    assert file_size(-1) == -errno.EBADF
    assert file_close(-1) == -errno.EBADF


def test_a_descriptor_is_not_inherited_by_child_processes(fd: int) -> None:
    assert not os.get_inheritable(fd)


def test_a_read_is_short_only_at_the_end_of_the_file(fd: int) -> None:
    into = ctypes.create_string_buffer(8)

    assert file_pwrite(fd, b"0123456789", 10, 0) == 10
    assert file_pread(fd, into, 8, 0) == 8
    assert file_pread(fd, into, 8, 7) == 3
    assert into.raw[:3] == b"789"
    assert file_pread(fd, into, 8, 10) == 0


def test_allocated_space_counts_as_size_and_reads_as_zero(fd: int) -> None:
    into = ctypes.create_string_buffer(b"\xff" * 4)

    assert file_allocate(fd, 0, 65536) == 0

    assert file_size(fd) == 65536
    assert os.fstat(fd).st_blocks * 512 >= 65536
    assert file_pread(fd, into, 4, 65532) == 4
    assert into.raw[:4] == bytes(4)


def test_truncation_cuts_the_file(fd: int) -> None:
    file_pwrite(fd, b"0123456789", 10, 0)

    assert file_truncate(fd, 4) == 0

    assert file_size(fd) == 4


def test_a_file_is_sent_from_a_position(fd: int) -> None:
    here, there = socket.socketpair()
    file_pwrite(fd, b"0123456789", 10, 0)

    with here, there:
        assert file_send(here.fileno(), fd, 3, 4) == 4
        assert there.recv(10) == b"3456"
        assert file_send(here.fileno(), fd, 10, 4) == 0


def test_a_full_socket_accepts_no_bytes(fd: int) -> None:
    here, there = socket.socketpair()
    here.settimeout(0)
    file_allocate(fd, 0, 1 << 20)

    with here, there:
        results: list[int] = []
        while not results or results[-1] > 0:
            results.append(file_send(here.fileno(), fd, 0, 1 << 20))

    assert results[-1] == -errno.EAGAIN


@pytest.mark.usefixtures("recording")
def test_a_renamed_file_is_recorded_under_its_current_name(fd: int, tmp_path: Path) -> None:
    file_ops.rename(tmp_path / "segment", tmp_path / "renamed")

    file_pwrite(fd, b"x", 1, 0)

    assert file_ops.recorded()[-1][:2] == ("write", os.path.realpath(tmp_path / "renamed"))


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_an_injected_failure_leaves_the_file_unchanged(fd: int, number: int) -> None:
    for op in ("write", "allocate", "truncate"):
        file_ops.fail(op, "segment", number)

    assert file_pwrite(fd, b"x", 1, 0) == -number
    assert file_allocate(fd, 0, 4096) == -number
    assert file_truncate(fd, 10) == -number

    assert file_size(fd) == 0


@pytest.mark.usefixtures("recording")
def test_a_recording_that_lost_operations_is_refused(fd: int) -> None:
    """A test must not judge by half of the operations."""
    size = 33 << 20
    memory = ctypes.create_string_buffer(size)

    assert file_pwrite(fd, memory, size, 0) == size
    assert file_ops.recorded()[-1][:1] == ("write",)
    assert file_pwrite(fd, memory, size, 0) == size

    with pytest.raises(StorageError, match="more operations than the record holds"):
        file_ops.recorded()


# ---- the names of open files
# -------------------------------------------------------------------------------------------------


def written_paths() -> list[str]:
    return [path for op, path, *_ in file_ops.take_recorded() if op == "write"]


@pytest.mark.usefixtures("recording")
def test_a_file_that_is_renamed_while_it_is_open_is_recorded_under_its_new_name(
    tmp_path: Path,
) -> None:
    folder = os.path.realpath(tmp_path)
    fd = file_open(f"{folder}/old".encode(), os.O_CREAT | os.O_WRONLY, 0o600)
    assert file_pwrite(fd, b"1", 1, 0) == 1
    assert written_paths() == [f"{folder}/old"]

    file_ops.rename(f"{folder}/old", f"{folder}/new")
    assert file_pwrite(fd, b"2", 1, 0) == 1
    assert written_paths() == [f"{folder}/new"]

    file_ops.remove(f"{folder}/new")
    assert file_pwrite(fd, b"3", 1, 0) == 1
    assert written_paths() == [f"{folder}/new (deleted)"]
    file_close(fd)


@pytest.mark.usefixtures("recording")
def test_a_descriptor_that_is_used_again_is_recorded_under_the_name_of_its_file(
    tmp_path: Path,
) -> None:
    folder = os.path.realpath(tmp_path)
    (tmp_path / "other").touch()
    fd = file_open(f"{folder}/file".encode(), os.O_CREAT | os.O_WRONLY, 0o600)
    file_close(fd)
    assert os.open(tmp_path / "other", os.O_WRONLY) == fd  # not by the table

    assert file_pwrite(fd, b"1", 1, 0) == 1
    os.rename(tmp_path / "other", tmp_path / "moved")  # noqa: PTH104 (nor is this)
    assert file_pwrite(fd, b"2", 1, 0) == 1

    assert written_paths() == [f"{folder}/other", f"{folder}/moved"]
    os.close(fd)


def test_a_new_recording_asks_again_for_the_names_of_open_files(tmp_path: Path) -> None:
    folder = os.path.realpath(tmp_path)
    file_ops.start_recording()
    fd = file_open(f"{folder}/old".encode(), os.O_CREAT | os.O_WRONLY, 0o600)
    os.rename(f"{folder}/old", f"{folder}/new")  # noqa: PTH104 (not by the table)

    file_ops.start_recording()
    assert file_pwrite(fd, b"1", 1, 0) == 1
    file_close(fd)
    file_ops.stop_recording()

    assert written_paths() == [f"{folder}/new"]
