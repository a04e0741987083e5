"""One file of a log, `<base offset>.log`, which may change: its headers, its bytes, its mapping.

Its tail may be preallocated and reads as zeros, its last batch may be torn, and it may grow or be
truncated at any time. So headers are read by pread(2), and a byte is read through the mapping only
when the header after it, or the CRC of its batch, has shown that it was written.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.codec import BatchHeader, BatchHeaders, audit, scan_headers
from broker.model.errors import Corrupt, Truncated
from broker.segments.index import numpy_module
from broker.segments.names import LOG, offset_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_HEADER_SIZE: Final = 61  # of version 2; those of messages are smaller
_WINDOW_MIN: Final = 16 << 10  # an index entry stands for 4 KiB and a batch
_WINDOW_MAX: Final = 64 << 10  # malloc maps what is larger, and each fresh page costs a fault


class Batch(NamedTuple):
    """The location of a batch, and fields of its header.

    Attributes:
        segment: base offset of the segment it is in.
        position: of its first byte in that file.
        size: of the whole batch, bytes.
        base_offset: offset of its first record.
        last_offset: offset of its last record.
        max_timestamp: its newest record's, ms; -1 without one.
    """

    segment: int
    position: int
    size: int
    base_offset: int
    last_offset: int
    max_timestamp: int

    @property
    def end(self) -> int:
        """The position after it."""
        return self.position + self.size


class SegmentFile:
    """A segment's file, open; mapped when a view is asked for."""

    def __init__(self, path: Path) -> None:
        """Open it; ValueError when its name is not that of a segment."""
        self.path = path
        self.base_offset = offset_of(path.name, LOG)
        self._map: NDArray[np.uint8] | None = None
        self._file = path.open("rb", buffering=0)

    def close(self) -> None:
        """Close it; views keep the mapping as long as they live."""
        self._map = None
        self._file.close()

    @property
    def size(self) -> int:
        """Its present size in bytes; ValueError when it is closed."""
        return os.fstat(self._file.fileno()).st_size

    def read(self, position: int, size: int) -> bytes:
        """Return the bytes from a position on, fewer at the end of the file."""
        return os.pread(self._file.fileno(), size, position)

    def has_only_zeros(self, position: int) -> bool:
        """Return whether the file ends or is preallocated from a position on."""
        while window := self.read(position, _WINDOW_MAX):
            if window != bytes(len(window)):
                return False
            position += len(window)
        return True

    def view(self, position: int, end: int, *, copy: bool) -> "NDArray[np.uint8]":
        """Return bytes that are known to be written; raise Truncated if they no longer exist."""
        numpy = numpy_module()
        data: NDArray[np.uint8]
        if copy:
            data = numpy.frombuffer(self.read(position, end - position), numpy.uint8)
        else:
            if self._map is None or self._map.size < end:
                self._map = self._mapping()
            data = self._map[position : min(end, self.size)]
        if data.size < end - position:
            raise Truncated(f"{self.path}: cut to {self.size} bytes while it was read", position)
        return data

    def _mapping(self) -> "NDArray[np.uint8]":
        """Map the whole file, read only."""
        import mmap  # noqa: PLC0415 - a broker imports this package and maps nothing

        numpy = numpy_module()
        try:
            mapped = numpy.memmap(self._file, numpy.uint8, mode="r")
        except ValueError:  # it is empty, or was truncated since its size was read
            raise Truncated(f"{self.path}: cut to {self.size} bytes while it was read") from None
        if hasattr(mmap, "MADV_SEQUENTIAL"):
            mapped.base.madvise(mmap.MADV_SEQUENTIAL)
        array: NDArray[np.uint8] = numpy.asarray(mapped)
        return array

    def whole_batch(self, position: int, offset: int) -> Batch | None:
        """Return the batch at a position if all of it was written."""
        batch = self.batch_at(position, offset)
        if batch is None or self.batch_at(batch.end, batch.last_offset + 1) is not None:
            return batch
        return batch if self.has_right_crc(batch) else None

    def batch_at(self, position: int, offset: int) -> Batch | None:
        """Return the batch at a position by its header, which must have at least an offset."""
        return next(self.batches(position, offset, _HEADER_SIZE), None)

    def batches(
        self, position: int, offset: int, window_size: int = _WINDOW_MIN
    ) -> Iterator[Batch]:
        """Iterate from header to header until there is no valid next batch."""
        while position >= 0:
            window = self.read(position, window_size)
            start, size = position, self.size
            for header in headers_in(window):
                batch = self._batch(start, header)
                if not offset <= batch.base_offset <= batch.last_offset or batch.end > size:
                    return
                yield batch
                position, offset = batch.end, batch.last_offset + 1
            if position == start:
                return
            window_size = min(2 * window_size, _WINDOW_MAX)

    def has_right_crc(self, batch: Batch) -> bool:
        """Return whether all of a batch exists and matches its CRC."""
        try:
            counts = audit(self.read(batch.position, batch.size))
        except Corrupt:  # the bytes have changed since the header was read
            return False
        return counts.batches == 1 and counts.crc_errors == 0

    def fault(self, position: int, offset: int) -> str:
        """Return why no whole batch of at least an offset stands at a position; "" for zeros."""
        head = self.read(position, _HEADER_SIZE)
        if not any(head):
            return ""
        try:
            headers = scan_headers(head, cut=True)
        except Corrupt as error:
            return error.reason
        batch = self._batch(position, headers[0]) if len(headers) else None
        if batch is None or batch.end > self.size:
            return "a batch cut short"
        if batch.base_offset < offset:
            return f"a batch of offset {batch.base_offset}, expected {offset} or more"
        if batch.last_offset < batch.base_offset:
            return f"a batch of offsets {batch.base_offset} to {batch.last_offset}"
        return "a batch whose CRC does not fit"

    def _batch(self, start: int, header: BatchHeader) -> Batch:
        return Batch(
            self.base_offset,
            start + header.position,
            header.size,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
        )


def headers_in(window: bytes) -> BatchHeaders:
    """Return the headers in these bytes up to the first invalid one; the last may be cut short."""
    try:
        return scan_headers(window, cut=True)
    except Corrupt as error:
        return scan_headers(window[: error.position])
