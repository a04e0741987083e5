from collections.abc import Callable, Iterable
from typing import TypeAlias, final

from typing_extensions import Buffer

from broker._native.records.batch_walk import BatchWalk
from broker._native.records.column import Column
from broker._native.records.key_map import KeyMap

_Decompress: TypeAlias = Callable[[int, memoryview, memoryview], int]

@final
class KeyCollector(BatchWalk):
    is_done: bool
    def __new__(
        cls,
        key_map: KeyMap,
        *,
        first_offset: int,
        end_offset: int,
        decompress: _Decompress,
        decompressed_bytes_max: int,
        aborted: Iterable[tuple[int, int, int]] = (),
    ) -> KeyCollector: ...
    def add(self, data: Buffer) -> int: ...

@final
class RecordFilter(BatchWalk):
    records_read: int
    records_kept: int
    batches_changed: int
    def __new__(
        cls,
        key_map: KeyMap,
        *,
        compress: Callable[[int, memoryview], bytes],
        now_ms: int,
        delete_retention_ms: int,
        decompress: _Decompress,
        decompressed_bytes_max: int,
        aborted: Iterable[tuple[int, int, int]] = (),
        producer_ends: Iterable[tuple[int, int, int]] = (),
    ) -> RecordFilter: ...
    def filter(self, data: Buffer) -> tuple[Column, int]: ...
    def take_aborted(self) -> list[tuple[int, int, int]]: ...
