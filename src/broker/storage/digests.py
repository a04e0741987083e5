"""The digest of a closed segment's log, `<base offset>.digest`: three lines of text.

    0
    <XXH3, 16 hexadecimal digits> <bytes of the log> <when it was last looked at, ms since 1970>
    <XXH3 of the two lines above>

XXH3 of 64 bits is what the repository hashes with elsewhere: enough against faults of a disk, which
forge nothing, and `xxhsum -H3` prints the same. It finds what the CRCs of the batches leave out.

A digest is written when every batch of the segment was found sound: once its last byte is on the
disk, with the files of a compaction, and for older segments by the first scrub. It is never of
other bytes than its log has: the last segment of a log, the only one that changes, has none; a
compaction's comes with its log; and one that stands where a start does not want it is removed
durably before the log is written to. A digest that is missing, or cannot be understood, is no fault
of the segment.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker._native.log.segment_check import digest_of
from broker.storage.segment_files import CLEANED, DIGEST, LOG, file_name

_VERSION = b"0"
_FIELDS = 3


class Digest(NamedTuple):
    """What is known of a closed segment's log."""

    xxh3: int
    size: int  # bytes
    checked_ms: int  # wall clock: when all of it was last found to be so


def read(folder: Path, base_offset: int) -> Digest | None:
    """The digest of a segment; None: there is none to be trusted."""
    try:
        return _parse(file_ops.read_file(folder / file_name(base_offset, DIGEST)))
    except (FileNotFoundError, ValueError):
        return None


def write(folder: Path, base_offset: int, digest: Digest, inode: int) -> bool:
    """Replace a segment's digest, if its log is still the file that was looked at.

    Not for a segment that somebody may replace meanwhile. Raises StorageError.
    """
    try:
        if (folder / file_name(base_offset, LOG)).stat().st_ino != inode:
            return False
    except FileNotFoundError:
        return False
    file_ops.write_file_atomic(folder / file_name(base_offset, DIGEST), _text(digest))
    return True


def write_cleaned(folder: Path, base_offset: int, digest: Digest) -> None:
    """Write the digest of what a compaction has made. Raises StorageError."""
    file_ops.write_file_atomic(folder / (file_name(base_offset, DIGEST) + CLEANED), _text(digest))


def remove(folder: Path, base_offsets: Iterable[int]) -> None:
    """Forget the digests of segments; not durable before the folder is synced."""
    for base_offset in base_offsets:
        with suppress(FileNotFoundError):
            file_ops.remove(folder / file_name(base_offset, DIGEST))


def _text(digest: Digest) -> bytes:
    lines = b"%s\n%016x %d %d\n" % (_VERSION, *digest)
    return lines + b"%016x\n" % digest_of(lines)


def _parse(content: bytes) -> Digest:
    lines, _, check = content.rstrip(b"\n").rpartition(b"\n")
    version, _, fields = lines.partition(b"\n")
    if version != _VERSION or check != b"%016x" % digest_of(lines + b"\n"):
        raise ValueError("a digest that was changed")
    words = fields.split(b" ")
    if len(words) != _FIELDS:
        raise ValueError(f"a digest of {len(words)} fields, expected {_FIELDS}")
    return Digest(int(words[0], 16), int(words[1]), int(words[2]))
