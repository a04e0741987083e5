"""One segment: runs of whole batches, where they end, and the batch of an offset or a time."""

from collections.abc import Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from broker.model.errors import Corrupt, Truncated
from broker.segments.file import Batch, SegmentFile
from broker.segments.index import OFFSET_ENTRY, TIME_ENTRY, Index, below, floor

if TYPE_CHECKING:
    from os import PathLike

    import numpy as np
    from numpy.typing import NDArray

CHUNK_BYTES: Final = 8 << 20  # what a chunk costs by itself is then a few percent of its decoding

NO_BOUND: Final = 1 << 63  # above every offset and every position


class Chunk(NamedTuple):
    """Whole batches that stand one after another.

    Attributes:
        data: their bytes, a read-only uint8 array of one dimension.
        segment: base offset of the segment they are in.
        position: where in that file they begin, bytes.
        base_offset: offset of the first record.
        next_offset: where the next chunk goes on.
    """

    data: "NDArray[np.uint8]"
    segment: int
    position: int
    base_offset: int
    next_offset: int


class End(NamedTuple):
    """Where the whole batches of a segment end.

    Attributes:
        segment: the segment's base offset.
        position: behind the last whole batch, bytes.
        offset: that the next batch would have at least.
        reason: what stands there that is no batch; "" for nothing and for zeros.
    """

    segment: int
    position: int
    offset: int
    reason: str


class Bounds(NamedTuple):
    """What limits the chunks: their size, and where the last one ends."""

    bytes_max: int
    end_offset: int
    end_position: int
    copy: bool

    def admit(self, batch: Batch) -> bool:
        """Whether a batch stands before the end; ValueError when the end is inside of it."""
        if batch.base_offset < self.end_offset <= batch.last_offset:
            raise ValueError(
                f"end_offset: {self.end_offset} is inside of the batch {batch.base_offset} to "
                f"{batch.last_offset}, expected where one begins, as a high watermark is"
            )
        return batch.base_offset < self.end_offset and batch.end <= self.end_position


def bounds(
    bytes_max: int, end_offset: int | None, end_position: int | None, *, copy: bool
) -> Bounds:
    """Return the bounds that a caller gave; ValueError for what cannot be one."""
    if bytes_max < 1:
        raise ValueError(f"bytes_max: {bytes_max}, expected at least 1")
    return Bounds(
        bytes_max,
        NO_BOUND if end_offset is None else end_offset,
        NO_BOUND if end_position is None else end_position,
        copy,
    )


class Segment:
    """A segment file, open; not yet mapped.

    Attributes:
        path: the `.log` file.
        base_offset: what its name says: no record in it has a smaller offset.
    """

    def __init__(self, path: "str | PathLike[str]") -> None:
        """Open the file; its indexes are read when they are needed.

        Raises:
            FileNotFoundError: there is no such file.
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Let go of the file. Views of it stay valid, and keep its mapping as long as they live."""
        self._file.close()

    @property
    def size(self) -> int:
        """The bytes of the file as it is now, a reserved tail included."""
        return self._file.size

    @property
    def offset_index(self) -> "NDArray[np.void]":
        """The offset index: a read-only array of OFFSET_ENTRY, without its reserved tail of zeros.

        `relative_offset` (>i4) + base_offset is the last offset of the batch at `position` (>i4).
        The newest entries of an active segment are only in the memory of its broker.
        """
        return self._offsets.entries(self.size)

    @property
    def time_index(self) -> "NDArray[np.void]":
        """The time index: a read-only array of TIME_ENTRY, without its reserved tail of zeros.

        `timestamp` (>i8, ms) is the largest so far, `relative_offset` (>i4) + base_offset the last
        offset of the batch that has it.
        """
        return self._times.entries(self.size)

    def locate(self, offset: int) -> Batch | None:
        """Return the first whole batch that ends at or behind an offset; None at the log's end.

        It holds the offset, or what follows it where compaction has left a gap.
        """
        batch = self._file.whole_batch(*self._seek(offset))
        # A damaged message may have a header that is right: then nothing was found before it.
        return batch if batch is None or batch.last_offset >= offset else None

    def locate_time(self, timestamp: int) -> Batch | None:
        """Return the first whole batch with a record at least as new as a timestamp (ms), or None.

        Which of its records that is, decoding tells.
        """
        for batch in self._file.batches(*self._floor_of_time(timestamp)):
            if batch.max_timestamp >= timestamp:
                return self._file.whole_batch(batch.position, batch.base_offset)
        return None

    def end(self) -> End:
        """Return where the whole batches end, and what stands behind them.

        Raises:
            Corrupt: the index knows of batches behind something that is none.
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
            bytes_max: the most bytes in a chunk; a larger batch comes alone.
            start_offset: begin with the batch that holds this offset, or what follows it.
            end_offset: stop before this offset, the high watermark: where a batch begins.
            end_position: stop before this byte; a batch that it cuts is left out.
            copy: return memory of its own instead of views of the file (see broker.segments).

        Each chunk is found when it is asked for, so what is appended meanwhile is returned too.
        The end is where no whole batch follows; `end` says why.

        Raises:
            Corrupt: the index knows of batches behind something that is none.
            Truncated: the file is shorter than it was.
            ValueError: `end_offset` is inside of a batch, bytes_max is not positive, or the segment
                is closed.
        """
        limits = bounds(bytes_max, end_offset, end_position, copy=copy)
        return self.chunks_from(self.base_offset if start_offset is None else start_offset, limits)

    def chunks_from(self, offset: int, limits: Bounds) -> Generator[Chunk, None, End]:
        """Iterate from an offset on; the generator's result is where it stopped."""
        position, offset = self._seek(offset)
        while isinstance(run := self._next_run(position, offset, limits), _Run):
            data = self._file.view(position, run.end, copy=limits.copy)
            yield Chunk(data, self.base_offset, position, run.base_offset, run.next_offset)
            position, offset = run.end, run.next_offset
        return run

    def has_only_zeros(self, position: int) -> bool:
        """Whether nothing was written from a position on: the file ends, or is reserved."""
        return self._file.has_only_zeros(position)

    # ---- runs of batches ---------------------------------------------------------------------

    def _next_run(self, position: int, offset: int, limits: Bounds) -> "_Run | End":
        """Find the batches of the next chunk, whose first has at least an offset."""
        while True:
            first = self._file.batch_at(position, offset)
            if first is not None and not limits.admit(first):
                return End(self.base_offset, position, first.base_offset, "")
            run = None if first is None else self._run(first, limits)
            if run is not None:
                return run
            if not self._has_batches_behind(position):
                return self._end_at(position, offset)
            # The index may have come to know of them since: then what was missing here is there.
            if self._file.whole_batch(position, offset) is None:
                reason = self._end_at(position, offset).reason or "zeros"
                raise Corrupt(f"{self.path}: {reason}, and batches behind", position)

    def _run(self, first: Batch, limits: Bounds) -> "_Run | None":
        """Return the longest run of whole batches within the bounds; None without a whole one."""
        stop = min(max(first.position + limits.bytes_max, first.end), limits.end_position)
        before, last = None, self._far_batch(first, stop, limits.end_offset)
        for batch in self._file.batches(last.end, last.last_offset + 1):
            if batch.end > stop or batch.last_offset >= limits.end_offset:
                break  # a header follows, so what stands before it was written
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
        place = min(
            floor(entries["position"], stop),
            below(entries["relative_offset"], end_offset - self.base_offset),
        )
        for candidate in (place, place - 1):  # the last one may only begin there
            batch = self._indexed(entries, candidate)
            if batch is None or batch.position <= first.position or batch.end > stop:
                continue
            if batch.base_offset > first.last_offset:  # else the headers between will tell
                return batch
        return first

    def _has_batches_behind(self, position: int) -> bool:
        entries = self.offset_index
        batch = self._indexed(entries, len(entries) - 1)
        return batch is not None and batch.position > position

    def _end_at(self, position: int, offset: int) -> End:
        """Return the end at a position, with what stands there."""
        size = self.size
        if size < position:
            raise Truncated(f"{self.path}: cut to {size} bytes while it was read", position)
        return End(self.base_offset, position, offset, self._file.fault(position, offset))

    # ---- where to begin ----------------------------------------------------------------------

    def _seek(self, offset: int) -> tuple[int, int]:
        """Return where the first batch that ends at or behind an offset stands, and a least offset.

        Without such a batch: where the last one ends.
        """
        position, least = self._floor(offset)
        for batch in self._file.batches(position, least):
            if batch.last_offset >= offset:
                return batch.position, batch.base_offset
            position, least = batch.end, batch.last_offset + 1
        return position, least

    def _floor(self, offset: int) -> tuple[int, int]:
        """Return where to begin to look for an offset: an indexed batch, or the start."""
        entries = self.offset_index
        place = floor(entries["relative_offset"], offset - self.base_offset)
        batch = self._indexed(entries, place)
        return (0, self.base_offset) if batch is None else (batch.position, batch.base_offset)

    def _floor_of_time(self, timestamp: int) -> tuple[int, int]:
        """Return where to begin to look for a time: no batch before that is as new."""
        entries = self.time_index
        place = below(entries["timestamp"], timestamp)
        if place < 0:
            return 0, self.base_offset
        newest = self.locate(self.base_offset + int(entries["relative_offset"][place]))
        if newest is None or newest.max_timestamp != entries["timestamp"][place]:
            return 0, self.base_offset  # not what the entry says: it is not believed
        return newest.position, newest.base_offset

    def _indexed(self, entries: "NDArray[np.void]", place: int) -> Batch | None:
        """Return the batch that an index entry points to, None when it is not the one it names."""
        if place < 0:
            return None
        position, relative = int(entries["position"][place]), entries["relative_offset"][place]
        batch = self._file.batch_at(position, self.base_offset)
        is_right = batch is not None and batch.last_offset - self.base_offset == relative
        return batch if is_right else None


class _Run(NamedTuple):
    # Whole batches up to a position: offset of the first, and what the next has at least.
    base_offset: int
    end: int
    next_offset: int
