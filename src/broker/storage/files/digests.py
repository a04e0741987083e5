"""Writes the digests of closed segments; `segments.digests` reads them and says what they cover."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from broker._native.kernel import file_ops
from broker._native.log.segment_check import digest_of
from broker.segments.digests import Digest, digest_lines
from broker.segments.names import ABORTED, CLEANED, DIGEST, file_name
from broker.segments.sidecar import sidecar_text
from broker.storage.files import sidecar


def write(folder: Path, base_offset: int, digest: Digest, inode: int) -> bool:
    """Write a segment's digest if its log still has the inode that was checked.

    Returns whether it had. Must not run concurrently with a replacement of the segment. Raises
    StorageError.
    """
    return sidecar.write(folder, base_offset, DIGEST, digest_lines(digest), inode)


def write_cleaned(folder: Path, base_offset: int, digest: Digest) -> None:
    """Write the digest of a segment that a compaction has written. Raises StorageError."""
    file = folder / (file_name(base_offset, DIGEST) + CLEANED)
    file_ops.write_file_atomic(file, sidecar_text(digest_lines(digest)))


def of_aborted(folder: Path, base_offsets: Iterable[int]) -> dict[int, int]:
    """Return the XXH3 of each segment's .txnindex, where there is one. Raises StorageError."""
    found = {}
    for base_offset in base_offsets:
        with suppress(FileNotFoundError):
            content = file_ops.read_file(folder / file_name(base_offset, ABORTED))
            found[base_offset] = digest_of(content)
    return found
