"""Checks a segment's files for corruption, in steps between which other work can run.

    every byte of the log  →  CRCs, order of offsets and epochs (SegmentCheck), the digest
    the three indexes      →  compared with the batches that they point to

Without a recorded digest, a corrupted base offset or leader epoch is found only when it breaks the
order; all other corruption is always found.
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker._native.log.segment_check import Damage, SegmentCheck, digest_of
from broker.model.limits import INDEX_READ_BYTES_MAX
from broker.segments.digests import Digest, read_digest
from broker.segments.names import ABORTED, INDEX, LOG, TIME_INDEX, file_name

# Fields of a batch whose corruption only a digest always detects.
UNDETECTABLE = ("base offset", "leader epoch")


class Verdict(NamedTuple):
    """The result of checking a segment.

    Attributes:
        base_offset: of the segment.
        size: bytes of its log.
        xxh3: of those.
        aborted_xxh3: of its .txnindex.
        inode: of the file that was checked.
        recorded: its recorded digest; None without one.
        batches, records, first_offset, next_offset, max_timestamp: of the valid batches.
        gaps: count of gaps between offsets, as after a compaction.
        reserved_bytes: preallocated zeros at the end.
        tail_bytes: of an active segment: an incomplete batch at the end.
        damages: damaged ranges, ascending; each has an `end_offset`.
        index_errors: how many offset, time and aborted transaction entries match no batch; one
            more of the last when the .txnindex differs from its recorded digest.
    """

    base_offset: int
    size: int
    xxh3: int
    aborted_xxh3: int
    inode: int
    recorded: Digest | None
    batches: int
    records: int
    first_offset: int
    next_offset: int
    max_timestamp: int
    gaps: int
    reserved_bytes: int
    tail_bytes: int
    damages: tuple[Damage, ...]
    index_errors: tuple[int, int, int]

    @property
    def is_valid(self) -> bool:
        """Whether neither log nor indexes have errors."""
        return not self.damages and not any(self.index_errors)

    @property
    def has_other_aborted(self) -> bool:
        """Whether its .txnindex differs from its recorded digest."""
        recorded = None if self.recorded is None else self.recorded.aborted_xxh3
        return recorded is not None and recorded != self.aborted_xxh3


class Examination:
    """A check of one segment: call `step` until it returns False, then `verdict`."""

    def __init__(
        self,
        folder: Path,
        base_offset: int,
        end_offset: int,
        *,
        is_active: bool = False,
        has_digest: bool = True,
        suffix: str = "",
    ) -> None:
        """Open the segment's files.

        `end_offset` is the base offset of the next segment, or -1. Without `has_digest` a recorded
        one is ignored. `suffix` is that of a compaction's files. Raises StorageError,
        FileNotFoundError.
        """
        self._base_offset, self._end_offset = base_offset, end_offset
        path = folder / (file_name(base_offset, LOG) + suffix)
        self._inode = file_ops.inode(path)
        self._recorded = read_digest(folder, base_offset) if has_digest else None
        stems = (INDEX, TIME_INDEX, ABORTED)
        index, time_index, aborted = (
            _content(folder / (file_name(base_offset, each) + suffix)) for each in stems
        )
        self._aborted_xxh3 = digest_of(aborted)
        self._check = SegmentCheck(
            path,
            base_offset,
            index=index,
            time_index=time_index,
            aborted=aborted,
            is_active=is_active,
        )

    def step(self, bytes_max: int) -> bool:
        """Check `bytes_max` more bytes; return whether there are others.

        Raises StorageError, Truncated.
        """
        return self._check.step(bytes_max)

    @property
    def position(self) -> int:
        """How many bytes were checked."""
        return self._check.position

    def close(self) -> None:
        """Close the file."""
        self._check.close()

    def verdict(self) -> Verdict:
        """Return the result, once `step` has returned False."""
        check = self._check
        found = Verdict(
            self._base_offset,
            check.size,
            check.digest,
            self._aborted_xxh3,
            self._inode,
            self._recorded,
            check.batches,
            check.records,
            check.first_offset,
            check.next_offset,
            check.max_timestamp,
            check.gaps,
            check.zero_bytes,
            check.tail_bytes,
            self._damages(),
            check.index_errors,
        )
        offsets, times, aborted = found.index_errors
        return found._replace(index_errors=(offsets, times, aborted + found.has_other_aborted))

    def _damages(self) -> tuple[Damage, ...]:
        check, recorded = self._check, self._recorded
        end = max(self._end_offset, check.next_offset)
        found = tuple(
            each._replace(end_offset=max(end, each.offset + 1)) if each.end_offset < 0 else each
            for each in check.damages
        )
        if self._end_offset >= 0 and check.next_offset > self._end_offset:
            reason = f"offsets up to {check.next_offset}, of the next segment"
            found = (*found, Damage(0, check.size, self._base_offset, end, reason))
        is_other = recorded is not None and (recorded.xxh3, recorded.size) != (
            check.digest,
            check.size,
        )
        if found or not is_other:
            return found
        reason = "not the bytes of its digest: a base offset or a leader epoch, anywhere in it"
        return (Damage(0, check.size, self._base_offset, end, reason),)


def _content(file: Path) -> bytes:
    """Return the content of an index file, up to the largest possible index; b"" without a file."""
    with suppress(FileNotFoundError):
        return file_ops.read_range(file, 0, min(file_ops.size(file), INDEX_READ_BYTES_MAX))
    return b""
