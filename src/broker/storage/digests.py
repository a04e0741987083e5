"""The digest of a closed segment's log, `<base offset>.digest`: one line.

    <XXH3 of the log, 16 hexadecimal digits> <its bytes> <when it was last looked at, ms since 1970>
        <XXH3 of its .txnindex, which older ones do not have>

in the frame of `beside_log.py`. No batch says where its transaction began, and a lost list of
aborted ones looks like an empty one: so their file has a digest of its own.

XXH3 of 64 bits is what the repository hashes with elsewhere: enough against faults of a disk, which
forge nothing, and `xxhsum -H3` prints the same. It finds what the CRCs of the batches leave out.

A digest is written when every batch of the segment was found sound: once its last byte is on the
disk, with the files of a compaction, and for older segments by the first scrub. It is never of
other bytes than its log has: the last segment of a log, the only one that changes, has none; a
compaction's comes with its log; and one that stands where a start does not want it is removed
durably before the log is written to.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker._native.log.segment_check import digest_of
from broker.storage import beside_log
from broker.storage.segment_files import ABORTED, CLEANED, DIGEST, file_name


class Digest(NamedTuple):
    """What is known of a closed segment's log."""

    xxh3: int
    size: int  # bytes
    checked_ms: int  # wall clock: when all of it was last found to be so
    aborted_xxh3: int | None = None  # of the aborted transactions; None: not recorded


def read(folder: Path, base_offset: int) -> Digest | None:
    """The digest of a segment; None: there is none to be trusted. Raises StorageError."""
    lines = beside_log.read(folder, base_offset, DIGEST)
    try:
        return None if lines is None else _parse(lines)
    except ValueError:
        return None


def write(folder: Path, base_offset: int, digest: Digest, inode: int) -> bool:
    """Replace a segment's digest, if its log is still the file that was looked at.

    Not for a segment that somebody may replace meanwhile. Raises StorageError.
    """
    return beside_log.write(folder, base_offset, DIGEST, _lines(digest), inode)


def write_cleaned(folder: Path, base_offset: int, digest: Digest) -> None:
    """Write the digest of what a compaction has made. Raises StorageError."""
    file = folder / (file_name(base_offset, DIGEST) + CLEANED)
    file_ops.write_file_atomic(file, beside_log.text(_lines(digest)))


def of_aborted(folder: Path, base_offsets: Iterable[int]) -> dict[int, int]:
    """The XXH3 of the aborted transactions of segments that have some. Raises StorageError."""
    found = {}
    for base_offset in base_offsets:
        with suppress(FileNotFoundError):
            content = file_ops.read_file(folder / file_name(base_offset, ABORTED))
            found[base_offset] = digest_of(content)
    return found


def _lines(digest: Digest) -> list[bytes]:
    log = b"%016x %d %d" % digest[:3]
    return [log if digest.aborted_xxh3 is None else b"%s %016x" % (log, digest.aborted_xxh3)]


def _parse(lines: list[bytes]) -> Digest:
    [line] = lines
    xxh3, size, checked_ms, *aborted = line.split(b" ")
    aborted_xxh3 = None
    if aborted:
        [digits] = aborted
        aborted_xxh3 = int(digits, 16)
    return Digest(int(xxh3, 16), int(size), int(checked_ms), aborted_xxh3)
