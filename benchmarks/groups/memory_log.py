"""A coordinator's log in memory, durable at once, so that only the coordinator is measured."""

from bisect import bisect_right
from collections.abc import Callable

from broker.codec import scan_headers


class MemoryLog:
    """An implementation of broker.core.logs.log.InternalLog."""

    log_start_offset = 0
    leader_epoch = 0
    is_offline = False
    is_led = True
    is_replicated = False
    lacks_replicas = False

    def __init__(self) -> None:
        """Create an empty log."""
        self.log_end_offset = 0
        self._base_offsets: list[int] = []
        self._batches: list[bytes] = []

    @property
    def damaged_ranges(self) -> list[tuple[int, int]]:
        """No ranges: nothing is read from a disk."""
        return []

    @property
    def high_watermark(self) -> int:
        """The log end offset: all records are durable."""
        return self.log_end_offset

    def append_internal(self, batch: bytes) -> int:
        """Append a batch with the next offsets."""
        base_offset = self.log_end_offset
        [header] = scan_headers(batch)
        self._base_offsets.append(base_offset)
        self._batches.append(base_offset.to_bytes(8, "big") + batch[8:])
        self.log_end_offset += header.record_count
        return base_offset

    def read(self, offset: int, size_max: int) -> bytes:
        """Return whole batches from an offset on, at least one."""
        found: list[bytes] = []
        size = 0
        for batch in self._batches[bisect_right(self._base_offsets, offset) - 1 :]:
            size += len(batch)
            if found and size > size_max:
                break
            found.append(batch)
        return b"".join(found)

    def everything(self) -> bytes:
        """Return all batches."""
        return b"".join(self._batches)

    def when_durable(self, _offset: int, callback: Callable[[bool], None]) -> None:
        """Call the callback at once."""
        callback(True)

    when_synced = when_durable
