"""The files of the audit: what is appended stays, in order, whatever fails."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.model.security_limits import AUDIT_LINE_BYTES_MAX
from broker.storage.files.audit_file import AuditFile

BYTES_MAX = 100


@pytest.fixture(autouse=True)
def recording() -> Iterator[None]:
    file_ops.start_recording()
    yield
    file_ops.stop_recording()


def opened(path: Path, *, files_max: int = 10, last: bytes | None = None) -> AuditFile:
    """Return the file of a path, whose last line is checked."""
    file = AuditFile(path, BYTES_MAX, files_max)
    assert file.resume() == last
    return file


def test_lines_are_appended_and_the_last_one_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = opened(path)
    file.append(b"first\nsecond\n", 1)
    file.append(b"third\n", 3)

    assert path.read_bytes() == b"first\nsecond\nthird\n"
    assert path.stat().st_mode & 0o777 == 0o600
    again = opened(path, last=b"third")
    again.append(b"fourth\n", 4)
    assert path.read_bytes() == b"first\nsecond\nthird\nfourth\n"


def test_an_append_is_durable_at_return(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    opened(path).append(b"first\n", 1)

    kinds = [(kind, name) for kind, name, *_ in file_ops.recorded() if name != "open"]
    assert ("sync", str(path)) in kinds
    assert ("sync_folder", str(tmp_path)) in kinds


def test_an_incomplete_last_line_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"first\nsecond\nthi")

    file = opened(path, last=b"second")

    assert path.read_bytes() == b"first\nsecond\n"
    file.append(b"third\n", 3)
    assert path.read_bytes() == b"first\nsecond\nthird\n"


def test_a_file_with_an_incomplete_line_only_is_empty_then(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"fir")

    opened(path)

    assert path.read_bytes() == b""


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_failed_append_is_repeated_at_the_same_place(tmp_path: Path, operation: str) -> None:
    path = tmp_path / "audit.jsonl"
    file = opened(path)
    file.append(b"first\n", 1)
    file_ops.fail(operation, "audit.jsonl", errno.ENOSPC)

    with pytest.raises(StorageError):
        file.append(b"second\n", 2)
    file.append(b"second\n", 2)

    assert path.read_bytes() == b"first\nsecond\n"


def test_a_full_file_is_closed_before_the_line_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    file = opened(path)
    for number in range(1, 8):
        file.append(b"x" * 39 + b"\n", number)

    names = ["audit-00000000000000000003.jsonl", "audit-00000000000000000005.jsonl"]
    names += ["audit-00000000000000000007.jsonl", "audit.jsonl"]
    assert sorted(each.name for each in tmp_path.iterdir()) == names
    assert [(tmp_path / each).stat().st_size for each in names] == [80, 80, 80, 40]


def test_the_oldest_closed_files_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    (tmp_path / "audit-of-mine.jsonl").write_bytes(b"another file")
    file = opened(path, files_max=2)
    for number in range(1, 12):
        file.append(b"x" * 39 + b"\n", number)

    closed = sorted(each.name for each in tmp_path.glob("audit-0*"))
    assert closed == [f"audit-{number:020}.jsonl" for number in (9, 11)]
    assert (tmp_path / "audit-of-mine.jsonl").exists()


def test_the_last_line_of_the_newest_closed_file_counts_while_there_is_no_open_one(
    tmp_path: Path,
) -> None:
    (tmp_path / "audit-00000000000000000003.jsonl").write_bytes(b"first\nsecond\n")
    (tmp_path / "audit-00000000000000000005.jsonl").write_bytes(b"third\nfourth\n")

    opened(tmp_path / "audit.jsonl", last=b"fourth")


def test_a_longest_line_is_found_and_a_longer_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    longest = b"x" * (AUDIT_LINE_BYTES_MAX - 1)
    path.write_bytes(b"first\n" + longest + b"\n")
    opened(path, last=longest)

    path.write_bytes(b"x" * (3 * AUDIT_LINE_BYTES_MAX))
    with pytest.raises(StorageError, match="a line that is too long"):
        opened(path)


def test_a_link_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").symlink_to("of-somebody-else")

    with pytest.raises(StorageError, match="is a link"):
        opened(tmp_path / "audit.jsonl")
