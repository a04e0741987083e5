from typing import Self, final

from broker._native.log.partition_log import PartitionLog

STATUS_NAMES: dict[int, str]

@final
class CursusFrame:
    def __new__(
        cls,
        topic: bytes,
        partition: int,
        *,
        is_original: bool,
        bytes_max: int,
        records_max: int,
    ) -> Self: ...
    @property
    def count(self) -> int: ...
    @property
    def last_offset(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def skip_offset(self) -> int: ...
    @property
    def large_size(self) -> int: ...
    def read(self, log: PartitionLog, offset: int, end: int, *, is_committed: bool) -> str: ...
    def add(self, batch: bytes, decompressed: bytes, offset: int) -> str: ...
    def take(self) -> bytes: ...
