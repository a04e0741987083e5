"""A log: the segments of one folder, which may be created and removed while they are read.

A reader's place is an offset, not a file. When the file of an offset is missing, the folder is
listed again: compaction has moved the offset to another file, or retention has removed it.
"""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, Self
from weakref import WeakSet

from broker.model.errors import Corrupt, SegmentGone, Truncated
from broker.segments.file import Batch
from broker.segments.index import numpy_module
from broker.segments.names import LOG, file_name, offset_of, offsets_of, partition_of
from broker.segments.segment import CHUNK_BYTES, NO_BOUND, Bounds, Chunk, End, Segment, bounds

_LISTINGS_MAX: Final = 10  # tries, for a folder that changes between listing and opening


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
        numpy_module()  # raises at once if it is not installed
        self.path = path
        self._is_folder = path.is_dir()
        self._folder = path if self._is_folder else path.absolute().parent
        self.base_offsets = self._listed()
        self.topic: str | None
        self.partition: int | None
        self.topic, self.partition = partition_of(self._folder.name) or (None, None)
        self._opened: WeakSet[Segment] = WeakSet()

    def __repr__(self) -> str:
        """Return the path and the number of segments."""
        return f"<Log {self.path}: {len(self.base_offsets)} segments>"

    def __enter__(self) -> Self:
        """Return the log, which is closed at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def close(self) -> None:
        """Close every segment that was opened through it; views of them stay valid."""
        for segment in list(self._opened):
            segment.close()

    def refresh(self) -> None:
        """List the folder again.

        Raises:
            SegmentGone: the folder no longer exists, or has no segment.
        """
        try:
            self.base_offsets = self._listed()
        except (FileNotFoundError, ValueError):
            raise SegmentGone(f"{self.path}: the log is gone") from None

    def segment(self, base_offset: int) -> Segment:
        """Open one segment, one of `base_offsets`.

        Raises:
            SegmentGone: its file no longer exists.
        """
        try:
            segment = Segment(self._file(base_offset))
        except FileNotFoundError:
            raise SegmentGone(f"{self._file(base_offset)}: the segment is gone") from None
        self._opened.add(segment)
        return segment

    def sizes(self) -> dict[int, int]:
        """Return the present size of each segment's file, if it still exists, by base offset."""
        sizes = {}
        for base_offset in self.base_offsets:
            try:
                sizes[base_offset] = self._file(base_offset).stat().st_size
            except FileNotFoundError:
                continue
        return sizes

    def locate(self, offset: int) -> Batch | None:
        """Return the first whole batch that ends at or after an offset; None at the log's end.

        It has the offset, or is the next one where compaction or retention has left a gap.
        """
        return self._first(offset, lambda segment: segment.locate(offset))

    def locate_time(self, timestamp: int) -> Batch | None:
        """Return the first whole batch with a record at least as new as a timestamp (ms), or None.

        Timestamps need not ascend: all segments are searched in order, by their indexes.
        """
        return self._first(0, lambda segment: segment.locate_time(timestamp))

    def end(self) -> End:
        """Return where the log ends: its last segment's end.

        Raises:
            Corrupt: its index has batches after invalid bytes.
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
        """Iterate over the log in chunks of whole batches, each within one segment.

        Args:
            bytes_max: the most bytes in a chunk; a larger batch is a chunk of its own.
            start_offset: begin with the batch that has this offset, or with the next one, as at the
                start of a log whose first segments were removed.
            end_offset: stop before this offset, the high watermark: where a batch begins.
            copy: return separate memory instead of views of the files (see broker.segments).

        Each chunk is read when it is requested, so batches appended meanwhile are returned too,
        also from new segments. Without `end_offset` the end is where no whole batch follows in the
        last segment; `end` has the reason.

        Raises:
            Truncated: the log ends before `end_offset`, or a file was truncated.
            Corrupt: invalid bytes, followed by batches.
            SegmentGone: retention has removed the next offset.
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
        """Return the first batch that `find` returns for a segment."""
        with closing(self._segments(offset)) as segments:
            return next((found for segment, _ in segments if (found := find(segment))), None)

    def _segments(self, offset: int) -> Generator[tuple[Segment, int], None, None]:
        """Open the segments from the one that may have an offset on; yield each with its start.

        The last one is yielded twice when a new segment was begun while it was read: it may have
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
        """Open the segment that may have an offset, or the first."""
        for _ in range(_LISTINGS_MAX):
            index = max(bisect_right(self.base_offsets, offset) - 1, 0)
            try:
                return self.segment(self.base_offsets[index])
            except SegmentGone:
                self.refresh()
        raise SegmentGone(f"{self.path}: segments were removed at each of {_LISTINGS_MAX} tries")

    def _after(self, segment: Segment) -> int | None:
        """Return the base offset of the next segment, as of the last listing."""
        index = bisect_right(self.base_offsets, segment.base_offset)
        return self.base_offsets[index] if index < len(self.base_offsets) else None

    def _file(self, base_offset: int) -> Path:
        return self._folder / file_name(base_offset, LOG)

    def _listed(self) -> tuple[int, ...]:
        self.path.stat()  # raises FileNotFoundError
        if not self._is_folder:
            return (offset_of(self.path.name, LOG),)
        found = offsets_of((file.name for file in self.path.iterdir()), LOG)
        if not found:
            raise ValueError(f"{self.path}: no segment in it, expected <20 digits>.log")
        return tuple(found)
