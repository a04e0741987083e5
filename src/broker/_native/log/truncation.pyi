from typing import NamedTuple, Self, final

from broker._native.log.partition_log import PartitionLog

@final
class EarlierProducers:
    def __new__(
        cls, log: PartitionLog, bases: list[int], snapshot: bytes, snapshot_offset: int
    ) -> Self: ...
    @property
    def is_known(self) -> bool: ...
    @property
    def snapshot(self) -> bytes: ...
    def step(self, bytes_max: int) -> bool: ...
    def close(self) -> None: ...

class Cut(NamedTuple):
    end_offset: int
    base_offset: int
    size: int
    removed: list[int]

def plan(log: PartitionLog, offset: int) -> Cut | None: ...
def cut(log: PartitionLog, base_offset: int, size: int) -> None: ...
def rebuild(
    log: PartitionLog,
    base_offset: int,
    end_offset: int,
    *,
    epochs: list[tuple[int, int]],
    snapshot: bytes,
    snapshot_offset: int,
) -> int: ...
def recreate(log: PartitionLog, base_offset: int) -> int | None: ...
def set_epochs(log: PartitionLog, epochs: list[tuple[int, int]]) -> None: ...
