from typing import Self, final

from broker._native.log.turn import Turn
from broker._native.protocols.kafka.parked_fetch import ParkedFetch
from broker._native.protocols.kafka.replica_fetch import ReplicaSessions

@final
class FetchSession(ParkedFetch):
    def __new__(cls, sessions: FetchSessions, turn: Turn) -> Self: ...

@final
class HostSessions: ...

@final
class FetchSessions:
    def __new__(
        cls,
        sessions_max: int,
        idle_ms_max: int,
        bytes_max: int,
        partitions_max: int = ...,
        replicas: ReplicaSessions | None = None,
    ) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def replicas(self) -> ReplicaSessions: ...
    @property
    def partitions(self) -> int: ...
