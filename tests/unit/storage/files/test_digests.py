"""The digest of a closed segment: it is read as it was written, and a changed one is refused."""

from pathlib import Path

import pytest

from broker.segments.digests import Digest, read_digest
from broker.segments.names import DIGEST, LOG, file_name
from broker.storage.files import digests, sidecar

ONE = Digest(0x0123456789ABCDEF, 4_711, 1_700_000_000_000)


@pytest.fixture
def inode(tmp_path: Path) -> int:
    """Return the inode of the log of a segment at offset 7."""
    log = tmp_path / file_name(7, LOG)
    log.write_bytes(b"log")
    return log.stat().st_ino


def test_a_digest_is_read_as_it_was_written(tmp_path: Path, inode: int) -> None:
    assert digests.write(tmp_path, 7, ONE, inode)
    assert read_digest(tmp_path, 7) == ONE


def test_the_digest_of_the_aborted_transactions_is_read_as_it_was_written(
    tmp_path: Path, inode: int
) -> None:
    both = ONE._replace(aborted_xxh3=0xABC)
    assert digests.write(tmp_path, 7, both, inode)
    assert read_digest(tmp_path, 7) == both


def test_without_its_file_there_is_no_digest(tmp_path: Path) -> None:
    assert read_digest(tmp_path, 7) is None


def test_any_flipped_bit_invalidates_the_digest(tmp_path: Path, inode: int) -> None:
    digests.write(tmp_path, 7, ONE, inode)
    file = tmp_path / file_name(7, DIGEST)
    content = file.read_bytes()
    for place in range(len(content) - 1):
        for bit in range(8):
            changed = bytearray(content)
            changed[place] ^= 1 << bit
            file.write_bytes(changed)
            assert read_digest(tmp_path, 7) is None, (place, bit)


def test_a_truncated_file_is_not_a_digest(tmp_path: Path, inode: int) -> None:
    digests.write(tmp_path, 7, ONE, inode)
    file = tmp_path / file_name(7, DIGEST)
    content = file.read_bytes()
    for size in range(len(content) - 1):
        file.write_bytes(content[:size])
        assert read_digest(tmp_path, 7) is None, size


def test_the_digest_of_another_file_is_not_written(tmp_path: Path, inode: int) -> None:
    log = tmp_path / file_name(7, LOG)
    log.rename(tmp_path / "old")
    assert not digests.write(tmp_path, 7, ONE, inode)
    log.write_bytes(b"compacted")
    assert not digests.write(tmp_path, 7, ONE, inode)
    assert read_digest(tmp_path, 7) is None


def test_removing_a_digest_or_a_missing_one_succeeds(tmp_path: Path, inode: int) -> None:
    digests.write(tmp_path, 7, ONE, inode)
    sidecar.remove(tmp_path, [3, 7])
    assert read_digest(tmp_path, 7) is None
