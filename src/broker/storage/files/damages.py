"""The known damage of a closed segment, `<base offset>.damage`, kept over restarts.

    <bytes of the log>
    <offset> <end offset> <position> <end position>     of each damaged range, ascending

in the format of `segments.sidecar`. It is written when a recovery or a check of the segment has
found damage, and removed when a later check finds none. It is deleted with its log: by retention,
DeleteRecords, a compaction or with the topic. A crash may lose it; then the next check finds the
same damage again.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker._native.log.partition_log import PartitionLog
from broker.model.errors import StorageError
from broker.segments.names import DAMAGE, LOG, file_name
from broker.segments.sidecar import read_sidecar
from broker.storage.files import sidecar

_log = logging.getLogger(__name__)


class Range(NamedTuple):
    """A range of records and of the bytes that hold them; the ends are exclusive."""

    offset: int
    end_offset: int
    position: int
    end_position: int


def read(folder: Path, base_offset: int) -> list[Range]:
    """Return the damaged ranges of a segment; none when unknown. Raises StorageError."""
    lines = read_sidecar(folder, base_offset, DAMAGE)
    if not lines:
        return []
    try:
        size, *ranges = [[int(word) for word in line.split(b" ")] for line in lines]
        if size != [file_ops.size(folder / file_name(base_offset, LOG))]:
            return []
        return [Range(*each) for each in ranges]
    except (ValueError, TypeError, FileNotFoundError):
        return []


def write(folder: Path, base_offset: int, size: int, ranges: Sequence[Range], inode: int) -> bool:
    """Write the damaged ranges of a segment whose log has `size` bytes, if it is still that file.

    Raises StorageError.
    """
    lines = [b"%d" % size, *(b"%d %d %d %d" % each for each in ranges)]
    return sidecar.write(folder, base_offset, DAMAGE, lines, inode)


def remove(folder: Path, base_offset: int) -> None:
    """Remove the known damage of a segment. Raises StorageError."""
    sidecar.remove(folder, [base_offset], [DAMAGE])
    file_ops.sync_folder(folder)


def save(log: PartitionLog, base_offsets: Iterable[int]) -> list[int]:
    """Write the damage that a recovery has found; return the base offsets of those segments.

    Raises StorageError.
    """
    folder = Path(log.folder)
    if not log.damaged_ranges:
        return []
    found = [base for base in base_offsets if log.damages_of(base)]
    for base in found:
        file = folder / file_name(base, LOG)
        ranges = [Range(*each) for each in log.damages_of(base)]
        write(folder, base, file_ops.size(file), ranges, file_ops.inode(file))
    return found


def restore(log: PartitionLog, base_offsets: Iterable[int]) -> None:
    """Mark in an opened log the damage of segments that an earlier run has found."""
    folder = Path(log.folder)
    for base_offset in base_offsets:
        try:
            ranges = read(folder, base_offset)
        except StorageError as error:
            _log.warning("known damage cannot be read: folder=%s error=%s", folder.name, error)
            continue
        if ranges and log.mark_damaged(base_offset, list(ranges)):
            _log.error(
                "damaged records are still refused: folder=%s segment=%s offsets=%s",
                folder.name,
                file_name(base_offset, LOG),
                ",".join(f"{each.offset}..{each.end_offset}" for each in ranges),
            )
