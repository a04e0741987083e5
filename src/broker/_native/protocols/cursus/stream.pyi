from collections.abc import Callable
from enum import Enum
from typing import Self, final

from broker._native.log.partition_log import PartitionLog
from broker._native.wire.connection import Wait

class StreamEvent(Enum):
    COMPRESSED = "compressed"
    TOO_LARGE = "too large"
    UNREADABLE = "unreadable"
    OUT_OF_RANGE = "out of range"
    REMOVED = "removed"
    OFFLINE = "offline"
    STOPPED = "stopped"
    CLOSED = "closed"

@final
class CursusStream(Wait):
    def __new__(
        cls,
        log: PartitionLog,
        offset: int,
        topic: bytes,
        *,
        is_original: bool,
        is_committed: bool,
        records_max: int,
        keepalive_ms: int,
        notify: Callable[[Self, StreamEvent], None],
    ) -> Self: ...
    @property
    def log(self) -> PartitionLog: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def skip_offset(self) -> int: ...
    @property
    def is_open(self) -> bool: ...
    @property
    def decompressed_bytes(self) -> int: ...
    def drop_decompressed(self) -> None: ...
    def resume_at(self, offset: int) -> None: ...
    def decompress(self, batch: bytes, decompressed: bytes) -> None: ...
    def end(self, last: bytes | None, *, is_last: bool) -> None: ...
