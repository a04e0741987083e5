"""A log: the segments of one folder, which come and go while they are read.

A reader is at an offset, not in a file. When the file it wants is gone, the folder is listed again:
compaction has put the offset into another file, or retention has removed it.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from weakref import WeakSet

from broker.model.errors import Corrupt, SegmentGone, Truncated
from broker.segments.file import Batch, base_offset_of, is_segment
from broker.segments.index import numpy_module
from broker.segments.segment import CHUNK_BYTES, NO_BOUND, Bounds, Chunk, End, Segment, bounds

_LISTINGS_MAX: Final = 10  # a folder that changes between each listing and opening is no log


class Log:
    """The segments of a partition, or a single one.

    Attributes:
        path: the folder, or the file.
        topic: from the folder's name; None when that is not TOPIC-PARTITION.
        partition: the same.
        base_offsets: of the segments, ascending, as of the last listing.
    """

    def __init__(self, path: Path) -> None:
        """List the folder; see broker.segments.open."""
        numpy_module()  # says at once that it is missing
        self.path = path
        self._is_folder = path.is_dir()
        self._folder = path if self._is_folder else path.absolute().parent
        self.base_offsets = self._listed()
        topic, _, partition = self._folder.name.rpartition("-")
        is_named = bool(topic) and partition.isdecimal()
        self.topic = topic if is_named else None
        self.partition = int(partition) if is_named else None
        self._opened: WeakSet[Segment] = WeakSet()

    def __repr__(self) -> str:
        """Return the path and the number of segments."""
        return f"<Log {self.path}: {len(self.base_offsets)} segments>"

    def __enter__(self) -> Self:
        """Return the log, which is closed at the end of the block."""
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
        """Close every segment that was opened through it; views of them stay valid."""
        for segment in list(self._opened):
            segment.close()

    def refresh(self) -> None:
        """List the folder again.

        Raises:
            SegmentGone: there is no folder any more, or no segment in it.
        """
        try:
            self.base_offsets = self._listed()
        except (FileNotFoundError, ValueError):
            raise SegmentGone(f"{self.path}: the log is gone") from None

    def segment(self, base_offset: int) -> Segment:
        """Open one segment, one of `base_offsets`.

        Raises:
            SegmentGone: its file is not there any more.
        """
        try:
            segment = Segment(self._file(base_offset))
        except FileNotFoundError:
            raise SegmentGone(f"{self._file(base_offset)}: the segment is gone") from None
        self._opened.add(segment)
        return segment

    def sizes(self) -> dict[int, int]:
        """Return the bytes that each segment's file has now, by base offset; gone ones left out."""
        sizes = {}
        for base_offset in self.base_offsets:
            try:
                sizes[base_offset] = self._file(base_offset).stat().st_size
            except FileNotFoundError:
                continue
        return sizes

    def locate(self, offset: int) -> Batch | None:
        """Return the first whole batch that ends at or behind an offset; None at the log's end.

        It holds the offset, or what follows it where compaction or retention has left a gap.
        """
        return self._first(offset, lambda segment: segment.locate(offset))

    def locate_time(self, timestamp: int) -> Batch | None:
        """Return the first whole batch with a record at least as new as a timestamp (ms), or None.

        Timestamps need not ascend: every segment before that is asked, by its index.
        """
        return self._first(0, lambda segment: segment.locate_time(timestamp))

    def end(self) -> End:
        """Return where the log ends: its last segment's end.

        Raises:
            Corrupt: its index knows of batches behind something that is none.
            SegmentGone: the log was deleted.
        """
        return [segment.end() for segment, _ in self._segments(self.base_offsets[-1])][-1]

    def chunks(
        self,
        bytes_max: int = CHUNK_BYTES,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        copy: bool = False,
    ) -> Iterator[Chunk]:
        """Iterate over the log in chunks of whole batches, none of which is in two segments.

        Args:
            bytes_max: the most bytes in a chunk; a larger batch comes alone.
            start_offset: begin with the batch that holds this offset, or with what follows it, as
                at the start of a log whose first segments are gone.
            end_offset: stop before this offset, the high watermark: where a batch begins.
            copy: return memory of its own instead of views of the files (see broker.segments).

        Each chunk is found when it is asked for, so what is appended meanwhile is returned too, in
        new segments as well. Without `end_offset` the end is where no whole batch follows in the
        last segment; `end` says why.

        Raises:
            Truncated: the log ends before `end_offset`, or a file is shorter than it was.
            Corrupt: bytes that are no batch, with batches behind.
            SegmentGone: retention has overtaken the reader.
            ValueError: `end_offset` is inside of a batch, or bytes_max is not positive.
        """
        limits = bounds(bytes_max, end_offset, None, copy=copy)
        return self._chunks(0 if start_offset is None else start_offset, limits)

    def _chunks(self, offset: int, limits: Bounds) -> Generator[Chunk, None, None]:
        end = None
        for segment, start in self._segments(offset):
            if end is not None and segment.base_offset > start:
                raise SegmentGone(
                    f"{self.path}: offset {start} is gone, the log begins at {segment.base_offset}"
                )
            is_sealed = self._after(segment) is not None
            reached = start if end is None else max(start, end.offset)
            if reached >= limits.end_offset:
                return
            end = yield from segment.chunks_from(reached, limits)
            if end.offset >= limits.end_offset:
                return
            if is_sealed and not segment.has_only_zeros(end.position):
                reason = end.reason or "zeros"
                raise Corrupt(f"{segment.path}: {reason}, in a sealed segment", end.position)
        if end is not None and end.offset < limits.end_offset < NO_BOUND:
            raise Truncated(
                f"{self.path}: ends at offset {end.offset}, expected {limits.end_offset}: "
                f"{end.reason or 'nothing'} follows",
                end.position,
            )

    # ---- the folder --------------------------------------------------------------------------

    def _first(self, offset: int, find: Callable[[Segment], Batch | None]) -> Batch | None:
        """Return what the first segment that finds anything has found."""
        with closing(self._segments(offset)) as segments:
            return next((found for segment, _ in segments if (found := find(segment))), None)

    def _segments(self, offset: int) -> Generator[tuple[Segment, int], None, None]:
        """Open the segments from one that may hold an offset on, with where to begin in each.

        The last one comes twice when a new segment followed while it was looked at: it may have
        grown just before.
        """
        while True:
            with self._open(offset) as segment:
                is_last = self._after(segment) is None
                yield segment, offset
                if is_last:
                    self.refresh()
                after = self._after(segment)
                if after is None:
                    return
                if is_last:
                    yield segment, offset
            offset = max(offset, after)

    def _open(self, offset: int) -> Segment:
        """Open the segment that may hold an offset, or the first."""
        for _ in range(_LISTINGS_MAX):
            place = max(bisect_right(self.base_offsets, offset) - 1, 0)
            try:
                return self.segment(self.base_offsets[place])
            except SegmentGone:
                self.refresh()
        raise SegmentGone(f"{self.path}: no segment stays")

    def _after(self, segment: Segment) -> int | None:
        """Return the base offset of the segment that follows, as of the last listing."""
        place = bisect_right(self.base_offsets, segment.base_offset)
        return self.base_offsets[place] if place < len(self.base_offsets) else None

    def _file(self, base_offset: int) -> Path:
        return self._folder / f"{base_offset:020}.log"

    def _listed(self) -> tuple[int, ...]:
        self.path.stat()  # raises FileNotFoundError
        if not self._is_folder:
            return (base_offset_of(self.path.name),)
        names = [file.name for file in self.path.iterdir()]
        found = sorted(base_offset_of(name) for name in names if is_segment(name))
        if not found:
            raise ValueError(f"{self.path}: no segment in it, expected <20 digits>.log")
        return tuple(found)
