"""Removes the files of segments that are no longer part of their log.

They are renamed to `<name>.deleted` when the segment is removed from its log, and deleted after
file.delete.delay.ms, so that programs that have listed the folder can still read them. A start
deletes what is left of them. The log start offset is durable before the first rename: whatever
files a crash leaves, the log begins there.
"""

from collections.abc import Iterable
from pathlib import Path

from broker._native.kernel import file_ops
from broker.segments.names import DELETED, SEGMENT_SUFFIXES, SNAPSHOT, file_name


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
