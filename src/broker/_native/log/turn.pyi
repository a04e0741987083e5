from collections.abc import Callable
from logging import Logger
from typing import Final, Self, final

from typing_extensions import disjoint_base

from broker._native.log.commit import CommitThread
from broker._native.log.open_files import OpenFiles
from broker._native.log.partition_log import PartitionLog

ROLLED: Final[int]
OFFLINE: Final[int]
logger: Logger

@final
class Turn:
    commit: CommitThread
    @property
    def files(self) -> OpenFiles: ...
    now_ms: int
    events: list[tuple[int, PartitionLog]]
    schedule: Callable[[], object] | None
    unfold: Callable[[int, memoryview, memoryview], int] | None
    unfolded_bytes_max: int
    def __new__(cls, commit: CommitThread | None) -> Self: ...
    def request_end(self) -> None: ...
    def end(self) -> None: ...
    def poll_synced(self) -> None: ...

@disjoint_base
class AwaitedLog:
    def __new__(cls) -> Self: ...
    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def high_watermark(self) -> int: ...
    @property
    def is_offline(self) -> bool: ...
    @property
    def is_deleted(self) -> bool: ...
    def when_durable(self, offset: int, callback: Callable[[bool], object]) -> None: ...
