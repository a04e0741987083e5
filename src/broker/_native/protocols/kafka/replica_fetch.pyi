from typing import Self, final

from broker._native.protocols.kafka.parked_fetch import ParkedFetch
from broker._native.wire.connection import Connection

@final
class ReplicaSession(ParkedFetch):
    def __new__(cls, sessions: ReplicaSessions, connection: Connection) -> Self: ...

@final
class ReplicaSessions:
    def __new__(
        cls, sessions_max: int = ..., partitions_max: int = ..., bytes_max: int = ...
    ) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def partitions(self) -> int: ...
