"""The files of a segment: their names and their removal.

    <base offset, 20 digits>.log .index .timeindex .txnindex    a segment
    <base offset, 20 digits>.digest                             the digest of its log when closed
    <base offset, 20 digits>.damage                             its damaged ranges, if any
    <base offset, 20 digits>.snapshot                           the producers' state before it
    <name>.deleted                                              removed from its log, to be deleted
    <name>.cleaned, then <name>.swap                            written by a compaction (swap.py)

A segment's files are renamed when it is removed from its log and deleted after
file.delete.delay.ms, so that programs that have listed the folder can still read them. A start
deletes what is left of them. The log start offset is durable before the first rename: whatever
files a crash leaves, the log begins there.
"""

from collections.abc import Iterable
from pathlib import Path

from broker._native.kernel import file_ops

LOG = ".log"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"
ABORTED = ".txnindex"
DIGEST = ".digest"
DAMAGE = ".damage"
INDEX = ".index"
TIME_INDEX = ".timeindex"
SEGMENT_SUFFIXES = (LOG, INDEX, TIME_INDEX, ABORTED, DIGEST, DAMAGE)
_OFFSET_DIGITS = 20


def file_name(base_offset: int, suffix: str) -> str:
    """Return the name of one of a segment's files."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def is_offset_file(name: str, suffix: str) -> bool:
    """Return whether a file's name is an offset and a suffix."""
    return (
        len(name) == _OFFSET_DIGITS + len(suffix)
        and name.endswith(suffix)
        and name[:_OFFSET_DIGITS].isdigit()
    )


def mark_deleted(folder: Path, base_offsets: Iterable[int]) -> None:
    """Rename the files of segments that are no longer part of their log, oldest first."""
    paths = _paths(folder, base_offsets)  # without entries there is no index
    file_ops.rename_all(paths, [path + DELETED for path in paths])


def remove_deleted(folder: Path, base_offsets: Iterable[int]) -> None:
    """Remove the renamed files of segments; those that are missing are ignored."""
    file_ops.remove_all([path + DELETED for path in _paths(folder, base_offsets)])


def _paths(folder: Path, base_offsets: Iterable[int]) -> list[str]:
    return [
        str(folder / file_name(base_offset, suffix))
        for base_offset in base_offsets
        for suffix in (*SEGMENT_SUFFIXES, SNAPSHOT)
    ]
