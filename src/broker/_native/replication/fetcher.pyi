from collections.abc import Callable
from enum import Enum
from typing import Self, final

from broker._native.log.partition_log import PartitionLog
from broker._native.log.turn import Turn
from broker._native.wire.connection import NativeProtocol, Wait
from broker._native.wire.poller import Poller
from broker._native.wire.tls import TlsChannel

class ReplicaEvent(Enum):
    DIVERGING = "diverging"
    OUT_OF_RANGE = "out of range"
    ERROR = "error"
    CORRUPT = "corrupt"
    GAP = "gap"
    FAILED = "failed"
    STALE_BROKER = "stale broker"

@final
class ReplyFrames(NativeProtocol):
    def __new__(cls, fetcher: ReplicaFetcher) -> Self: ...

@final
class ReplicaFetcher(Wait):
    broker_epoch: int
    def __new__(
        cls,
        turn: Turn,
        broker_id: int,
        broker_epoch: int,
        on_events: Callable[[], object] | None,
        on_lost: Callable[[str], object] | None,
        *,
        wait_ms: int,
        bytes_min: int,
        bytes_max: int,
        partition_bytes_max: int,
        timeout_ms: int,
    ) -> Self: ...
    @property
    def is_connected(self) -> bool: ...
    @property
    def partitions(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def replies(self) -> int: ...
    def connect(
        self, poller: Poller, fd: int, peer_host: str, tls: TlsChannel | None = ...
    ) -> None: ...
    def add(self, log: PartitionLog, topic_id: bytes, partition: int, epoch: int) -> None: ...
    def remove(self, topic_id: bytes, partition: int) -> None: ...
    def take_events(self) -> list[tuple[ReplicaEvent, PartitionLog | None, int, int, int]]: ...
    def close(self, reason: str) -> None: ...
