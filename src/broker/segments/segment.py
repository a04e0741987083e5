"""One segment: iterates over whole batches, and finds the batch of an offset or a timestamp."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from broker.model.errors import Corrupt, Truncated
from broker.segments.file import Batch, SegmentFile
from broker.segments.index import OFFSET_ENTRY, TIME_ENTRY, Index, below, floor

if TYPE_CHECKING:
    from os import PathLike

    import numpy as np
    from numpy.typing import NDArray

CHUNK_BYTES: Final = 8 << 20  # large enough that the cost per chunk is a few percent of decoding

NO_BOUND: Final = 1 << 63  # above every offset and every position


class Chunk(NamedTuple):
    """Consecutive whole batches.

    Attributes:
        data: their bytes, a read-only uint8 array of one dimension.
        segment: base offset of the segment they are in.
        position: of their first byte in that file.
        base_offset: offset of the first record.
        next_offset: where the next chunk begins.
    """

    data: "NDArray[np.uint8]"
    segment: int
    position: int
    base_offset: int
    next_offset: int


class End(NamedTuple):
    """The end of a segment's whole batches.

    Attributes:
        segment: the segment's base offset.
        position: after the last whole batch, bytes.
        offset: the lowest possible base offset of the next batch.
        reason: why the bytes there are no batch; "" at the end of the file and for zeros.
    """

    segment: int
    position: int
    offset: int
    reason: str


class Bounds(NamedTuple):
    """The limits of chunks: their size, and where the last one ends."""

    bytes_max: int
    end_offset: int
    end_position: int
    copy: bool

    def admit(self, batch: Batch) -> bool:
        """Return whether a batch is before the end; ValueError when the end is inside of it."""
        if batch.base_offset < self.end_offset <= batch.last_offset:
            raise ValueError(
                f"end_offset: {self.end_offset} is inside of the batch {batch.base_offset} to "
                f"{batch.last_offset}, expected where one begins, as a high watermark is"
            )
        return batch.base_offset < self.end_offset and batch.end <= self.end_position


def bounds(
    bytes_max: int, end_offset: int | None, end_position: int | None, *, copy: bool
) -> Bounds:
    """Return a caller's bounds; ValueError for an invalid one."""
    if bytes_max < 1:
        raise ValueError(f"bytes_max: {bytes_max}, expected at least 1")
    return Bounds(
        bytes_max,
        NO_BOUND if end_offset is None else end_offset,
        NO_BOUND if end_position is None else end_position,
        copy,
    )


class Segment:
    """An open segment file; mapped on first use.

    Attributes:
        path: the `.log` file.
        base_offset: from its name: no record in it has a smaller offset.
    """

    def __init__(self, path: "str | PathLike[str]") -> None:
        """Open the file; its indexes are read when they are needed.

        Raises:
            FileNotFoundError: the file does not exist.
            ValueError: its name is not that of a segment.
            Unsupported: numpy is not installed.
        """
        self.path = Path(path)
        self._offsets = Index(self.path.with_suffix(".index"), OFFSET_ENTRY)
        self._times = Index(self.path.with_suffix(".timeindex"), TIME_ENTRY)
        self._file = SegmentFile(self.path)
        self.base_offset = self._file.base_offset

    def __repr__(self) -> str:
        """Return the path."""
        return f"<Segment {self.path}>"

    def __enter__(self) -> Self:
        """Return the segment, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close the file. Views of it stay valid and keep its mapping."""
        self._file.close()

    @property
    def size(self) -> int:
        """The present size of the file in bytes, including a preallocated tail."""
        return self._file.size

    @property
    def offset_index(self) -> "NDArray[np.void]":
        """The offset index: a read-only array of OFFSET_ENTRY, without preallocated zeros.

        `relative_offset` (>i4) + base_offset is the last offset of the batch at `position` (>i4).
        The newest entries of an active segment are only in the memory of its broker.
        """
        return self._offsets.entries(self.size)

    @property
    def time_index(self) -> "NDArray[np.void]":
        """The time index: a read-only array of TIME_ENTRY, without preallocated zeros.

        `timestamp` (>i8, ms) is the largest up to here, `relative_offset` (>i4) + base_offset the
        last offset of the batch that has it.
        """
        return self._times.entries(self.size)

    def locate(self, offset: int) -> Batch | None:
        """Return the first whole batch that ends at or after an offset; None at the log's end.

        It has the offset, or is the next one where compaction has left a gap.
        """
        batch = self._file.whole_batch(*self._seek(offset))
        # Without such a batch `_seek` returns the end, where a damaged message may follow.
        return batch if batch is None or batch.last_offset >= offset else None

    def locate_time(self, timestamp: int) -> Batch | None:
        """Return the first whole batch with a record at least as new as a timestamp (ms), or None.

        To find the record, decode the batch.
        """
        for batch in self._file.batches(*self._floor_of_time(timestamp)):
            if batch.max_timestamp >= timestamp:
                return self._file.whole_batch(batch.position, batch.base_offset)
        return None

    def end(self) -> End:
        """Return where the whole batches end, and why.

        Raises:
            Corrupt: the index has batches after invalid bytes.
        """
        run: _Run | End = _Run(self.base_offset, *self._floor(NO_BOUND))
        everything = bounds(NO_BOUND, None, None, copy=False)
        while isinstance(run, _Run):
            run = self._next_run(run.end, run.next_offset, everything)
        return run

    def chunks(
        self,
        bytes_max: int = CHUNK_BYTES,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        end_position: int | None = None,
        copy: bool = False,
    ) -> Iterator[Chunk]:
        """Iterate over the segment in chunks of whole batches.

        Args:
            bytes_max: the most bytes in a chunk; a larger batch is a chunk of its own.
            start_offset: begin with the batch that has this offset, or with the next one.
            end_offset: stop before this offset, the high watermark: where a batch begins.
            end_position: stop before this byte, and before a batch that extends past it.
            copy: return separate memory instead of views of the file (see broker.segments).

        Each chunk is read when it is requested, so batches appended meanwhile are returned too.
        The end is where no whole batch follows; `end` has the reason.

        Raises:
            Corrupt: the index has batches after invalid bytes.
            Truncated: the file was truncated.
            ValueError: `end_offset` is inside of a batch, bytes_max is not positive, or the segment
                is closed.
        """
        limits = bounds(bytes_max, end_offset, end_position, copy=copy)
        return self.chunks_from(self.base_offset if start_offset is None else start_offset, limits)

    def chunks_from(self, offset: int, limits: Bounds) -> Generator[Chunk, None, End]:
        """Iterate from an offset on; the generator's return value is where it stopped."""
        position, offset = self._seek(offset)
        while isinstance(run := self._next_run(position, offset, limits), _Run):
            data = self._file.view(position, run.end, copy=limits.copy)
            yield Chunk(data, self.base_offset, position, run.base_offset, run.next_offset)
            position, offset = run.end, run.next_offset
        return run

    def has_only_zeros(self, position: int) -> bool:
        """Return whether the file ends or is preallocated from a position on."""
        return self._file.has_only_zeros(position)

    # ---- runs of batches ---------------------------------------------------------------------

    def _next_run(self, position: int, offset: int, limits: Bounds) -> "_Run | End":
        """Find the batches of the next chunk, whose base offset must be at least `offset`."""
        while True:
            first = self._file.batch_at(position, offset)
            if first is not None and not limits.admit(first):
                return End(self.base_offset, position, first.base_offset, "")
            run = None if first is None else self._run(first, limits)
            if run is not None:
                return run
            if not self._has_batches_after(position):
                return self._end_at(position, offset)
            # They may have been written since: then the batch that was missing here exists now.
            if self._file.whole_batch(position, offset) is None:
                reason = self._end_at(position, offset).reason or "zeros"
                raise Corrupt(f"{self.path}: {reason}, followed by batches", position)

    def _run(self, first: Batch, limits: Bounds) -> "_Run | None":
        """Return the longest run of whole batches within the bounds; None without a whole one."""
        stop = min(max(first.position + limits.bytes_max, first.end), limits.end_position)
        before, last = None, self._far_batch(first, stop, limits.end_offset)
        for batch in self._file.batches(last.end, last.last_offset + 1):
            if batch.end > stop or batch.last_offset >= limits.end_offset:
                break  # a header follows, so the batch before it was written
            before, last = last, batch
        else:
            if not self._file.has_right_crc(last):
                if last == first:
                    return None
                if before is None:
                    return _Run(first.base_offset, last.position, last.base_offset)
                last = before
        return _Run(first.base_offset, last.end, last.last_offset + 1)

    def _far_batch(self, first: Batch, stop: int, end_offset: int) -> Batch:
        """Return the last indexed batch that ends within the bounds, or the first."""
        entries = self.offset_index
        index = min(
            floor(entries["position"], stop),
            below(entries["relative_offset"], end_offset - self.base_offset),
        )
        for candidate in (index, index - 1):  # the last one may extend past the bounds
            batch = self._indexed(entries, candidate)
            if batch is None or batch.position <= first.position or batch.end > stop:
                continue
            if batch.base_offset > first.last_offset:  # else the headers in between decide
                return batch
        return first

    def _has_batches_after(self, position: int) -> bool:
        entries = self.offset_index
        batch = self._indexed(entries, len(entries) - 1)
        return batch is not None and batch.position > position

    def _end_at(self, position: int, offset: int) -> End:
        """Return the end at a position, with the reason."""
        size = self.size
        if size < position:
            raise Truncated(f"{self.path}: cut to {size} bytes while it was read", position)
        return End(self.base_offset, position, offset, self._file.fault(position, offset))

    # ---- where to begin ----------------------------------------------------------------------

    def _seek(self, offset: int) -> tuple[int, int]:
        """Return position and base offset of the first batch that ends at or after an offset.

        Without such a batch: the end of the last one, and the lowest possible next offset.
        """
        position, least = self._floor(offset)
        for batch in self._file.batches(position, least):
            if batch.last_offset >= offset:
                return batch.position, batch.base_offset
            position, least = batch.end, batch.last_offset + 1
        return position, least

    def _floor(self, offset: int) -> tuple[int, int]:
        """Return where to begin the search for an offset: an indexed batch, or the start."""
        entries = self.offset_index
        index = floor(entries["relative_offset"], offset - self.base_offset)
        batch = self._indexed(entries, index)
        return (0, self.base_offset) if batch is None else (batch.position, batch.base_offset)

    def _floor_of_time(self, timestamp: int) -> tuple[int, int]:
        """Return where to begin the search for a timestamp: no batch before that is as new."""
        entries = self.time_index
        index = below(entries["timestamp"], timestamp)
        if index < 0:
            return 0, self.base_offset
        newest = self.locate(self.base_offset + int(entries["relative_offset"][index]))
        if newest is None or newest.max_timestamp != entries["timestamp"][index]:
            return 0, self.base_offset  # the entry does not match the batch: it is not used
        return newest.position, newest.base_offset

    def _indexed(self, entries: "NDArray[np.void]", index: int) -> Batch | None:
        """Return the batch that an index entry points to, None when it does not match the entry."""
        if index < 0:
            return None
        position, relative = int(entries["position"][index]), entries["relative_offset"][index]
        batch = self._file.batch_at(position, self.base_offset)
        is_right = batch is not None and batch.last_offset - self.base_offset == relative
        return batch if is_right else None


class _Run(NamedTuple):
    # Whole batches up to a position: offset of the first, lowest possible offset of the next.
    base_offset: int
    end: int
    next_offset: int
