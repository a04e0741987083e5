"""What of a closed segment is known to be damaged, `<base offset>.damage`: kept over restarts.

    <bytes of the log>
    <offset> <end offset> <position> <end position>     of each damaged range, ascending

in the frame of `beside_log.py`. It is written when a recovery or a look at the segment has found
damage, and removed when a later look finds none. It goes with its log: with retention, deleted
records, a compaction or the topic. A crash may lose it, then the next look finds the same again.
"""

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.storage import beside_log
from broker.storage.segment_files import DAMAGE, LOG, file_name

_log = logging.getLogger(__name__)


class Range(NamedTuple):
    """Records and the bytes that hold them: of the first, and behind the last."""

    offset: int
    end_offset: int
    position: int
    end_position: int


class DamagedLog(Protocol):
    """What is told of damage; the native `PartitionLog` is one."""

    @property
    def folder(self) -> str:
        """Where its files are."""

    @property
    def damaged_ranges(self) -> list[tuple[int, int]]:
        """The (offset, end offset) of all that it refuses."""

    def damages_of(self, base_offset: int) -> list[tuple[int, int, int, int]]:
        """The ranges of a segment that it refuses."""

    def mark_damaged(self, base_offset: int, ranges: list[tuple[int, int, int, int]]) -> bool:
        """Refuse these ranges of a sealed segment and no others; whether it is there."""


def read(folder: Path, base_offset: int) -> list[Range]:
    """The damaged ranges of a segment; none when they are not known. Raises StorageError."""
    lines = beside_log.read(folder, base_offset, DAMAGE)
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
    """Replace what is known of a segment whose log has so many bytes, if it is still that file.

    Raises StorageError.
    """
    lines = [b"%d" % size, *(b"%d %d %d %d" % each for each in ranges)]
    return beside_log.write(folder, base_offset, DAMAGE, lines, inode)


def remove(folder: Path, base_offset: int) -> None:
    """Forget what is known of a segment. Raises StorageError."""
    beside_log.remove(folder, [base_offset], [DAMAGE])
    file_ops.sync_folder(folder)


def keep(log: DamagedLog, base_offsets: Iterable[int]) -> list[int]:
    """Write down what a recovery has found damaged; the base offsets of those segments.

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


def recall(log: DamagedLog, base_offsets: Iterable[int]) -> None:
    """Have a log that was opened refuse what an earlier life has found damaged in segments."""
    folder = Path(log.folder)
    for base_offset in base_offsets:
        try:
            ranges = read(folder, base_offset)
        except StorageError as error:
            _log.warning("damage not known: folder=%s error=%s", folder.name, error)
            continue
        if ranges and log.mark_damaged(base_offset, list(ranges)):
            _log.error(
                "damaged records are still refused: folder=%s segment=%s offsets=%s",
                folder.name,
                file_name(base_offset, LOG),
                ",".join(f"{each.offset}..{each.end_offset}" for each in ranges),
            )
