"""The digest of a closed segment's log, `<base offset>.digest`: one line.

    <XXH3 of the log, 16 hexadecimal digits> <its bytes> <when it was last checked, ms since 1970>
        <XXH3 of its .txnindex, missing in older files>

in the format of `sidecar.py`. A batch does not have the first offset of its transaction, and a lost
list of aborted transactions looks like an empty one: so the .txnindex has a digest of its own.

The 64-bit XXH3 is used elsewhere in the repository, too: it suffices against disk faults, which are
not forgeries, and `xxhsum -H3` prints the same. It covers the fields that the batches' CRCs do not.

A digest is written when every batch of the segment is valid: once its last byte is on the disk,
with the files of a compaction, and for older segments by the first scrub. It always belongs to the
present bytes of its log: the last segment, the only one that changes, has none; a compaction
replaces both together; and a start removes the digest of a last segment durably before the log is
written to.
"""

from pathlib import Path
from typing import NamedTuple

from broker.segments.names import DIGEST
from broker.segments.sidecar import read_sidecar


class Digest(NamedTuple):
    """The digest of a closed segment's log."""

    xxh3: int
    size: int  # bytes
    checked_ms: int  # wall clock: when it was last found to match
    aborted_xxh3: int | None = None  # of the aborted transactions; None: not recorded


def read_digest(folder: Path, base_offset: int) -> Digest | None:
    """Return the digest of a segment; None if missing or invalid. Raises StorageError."""
    lines = read_sidecar(folder, base_offset, DIGEST)
    try:
        return None if lines is None else _parse(lines)
    except ValueError:
        return None


def digest_lines(digest: Digest) -> list[bytes]:
    """Return the lines of its sidecar."""
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
