from collections.abc import Callable, Iterable
from typing import final

from broker._native.records.column_source import ColumnSource

@final
class BatchEncoder:
    def __new__(
        cls,
        *,
        batch_bytes_max: int,
        timestamp: int,
        base_offset: int | None = 0,
        attributes: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        compress: Callable[[memoryview[int]], bytes] | None = None,
    ) -> BatchEncoder: ...
    def append_columns(self, source: ColumnSource) -> None: ...
    def append_rows(self, rows: Iterable[object]) -> None: ...
    def finish(self) -> list[bytes]: ...
