"""The names of the files in a partition's folder.

<base offset, 20 digits>.log .index .timeindex .txnindex    a segment
<base offset, 20 digits>.digest                             the digest of its log when closed
<base offset, 20 digits>.damage                             its damaged ranges, if any
<offset, 20 digits>.snapshot                                the producers' state before it
<name>.deleted                                              removed from its log, to be deleted
<name>.cleaned, then <name>.swap                            written by a compaction
"""

from collections.abc import Iterable

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


def partition_of(folder_name: str) -> tuple[str, int] | None:
    """Return topic and partition of a folder TOPIC-PARTITION; None for another name."""
    topic, _, partition = folder_name.rpartition("-")
    return (topic, int(partition)) if topic and partition.isdecimal() else None


def file_name(base_offset: int, suffix: str) -> str:
    """Return the name of one of a segment's files."""
    return f"{base_offset:0{_OFFSET_DIGITS}d}{suffix}"


def is_offset_file(name: str, suffix: str) -> bool:
    """Return whether a file's name is an offset and a suffix."""
    digits = name[:_OFFSET_DIGITS]
    return digits.isascii() and digits.isdigit() and name[_OFFSET_DIGITS:] == suffix


def offset_of(name: str, suffix: str) -> int:
    """Return the offset in a file's name; ValueError for another name."""
    if not is_offset_file(name, suffix):
        raise ValueError(f"{name}: expected a name <{_OFFSET_DIGITS} digits>{suffix}")
    return int(name[:_OFFSET_DIGITS])


def offsets_of(names: Iterable[str], suffix: str) -> list[int]:
    """Return the offsets of the files with a suffix, ascending."""
    return sorted(int(name[:_OFFSET_DIGITS]) for name in names if is_offset_file(name, suffix))
