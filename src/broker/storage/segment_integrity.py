"""Whether a segment's files are what was written: a step at a time, so that others may go on.

    every byte of the log  →  CRCs, order of offsets and epochs (SegmentCheck), the digest
    the three indexes      →  compared with the batches that they name

Without a digest that was recorded before, a flip in a base offset or a leader epoch shows only when
it breaks their order; everything else shows in any case.
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from broker._native.kernel import file_ops
from broker._native.log.segment_check import Damage, SegmentCheck, digest_of
from broker.model.limits import INDEX_READ_BYTES_MAX
from broker.storage import digests
from broker.storage.digests import Digest
from broker.storage.segment_files import ABORTED, INDEX, LOG, TIME_INDEX, file_name

# Fields of a batch that only a digest covers, and where nothing else would show.
UNDETECTABLE = ("base offset", "leader epoch")


class Verdict(NamedTuple):
    """What was found in a segment.

    Attributes:
        base_offset: of the segment.
        size: bytes of its log.
        xxh3: of those.
        aborted_xxh3: of its .txnindex.
        inode: of the file that was looked at.
        recorded: the digest that it had before; None without one, or when it is not its own.
        batches, records, first_offset, next_offset, max_timestamp: of the sound batches.
        gaps: places where offsets are missing, as after a compaction.
        reserved_bytes: zeros at the end, which were never written.
        tail_bytes: of an active segment: at its end, not whole (yet).
        damages: what nobody can vouch for, ascending; `end_offset` of each is known.
        index_errors: entries that no batch agrees with: offsets, times, aborted transactions; of
            these one more when they are not what was recorded.
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
    def is_sound(self) -> bool:
        """Whether nothing is wrong with log or indexes."""
        return not self.damages and not any(self.index_errors)

    @property
    def has_other_aborted(self) -> bool:
        """Whether its aborted transactions are not those that were recorded."""
        recorded = None if self.recorded is None else self.recorded.aborted_xxh3
        return recorded is not None and recorded != self.aborted_xxh3


class Examination:
    """Looks at one segment; `step` until it says that all was seen, then ask for the `verdict`."""

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

        `end_offset` is where the next segment begins, or -1. Without `has_digest` a recorded one is
        left aside. `suffix` is that of a compaction's files. Raises StorageError, FileNotFoundError
        """
        self._base_offset, self._end_offset = base_offset, end_offset
        path = folder / (file_name(base_offset, LOG) + suffix)
        self._inode = file_ops.inode(path)
        self._recorded = digests.read(folder, base_offset) if has_digest else None
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
        """Look at so many more bytes; whether there are others. Raises StorageError, Truncated."""
        return self._check.step(bytes_max)

    @property
    def position(self) -> int:
        """How many bytes were looked at."""
        return self._check.position

    def close(self) -> None:
        """Let go of the file."""
        self._check.close()

    def verdict(self) -> Verdict:
        """What was found, once all was seen."""
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
    """An index file, none when there is none; what is behind any index is not read."""
    with suppress(FileNotFoundError):
        return file_ops.read_range(file, 0, min(file_ops.size(file), INDEX_READ_BYTES_MAX))
    return b""
