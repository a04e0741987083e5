from typing import Self, final

from broker._native.log.turn import Turn
from broker._native.wire.connection import Wait

@final
class FetchSession(Wait):
    wait_ms: int
    def __new__(cls, sessions: FetchSessions, turn: Turn) -> Self: ...

@final
class FetchSessions:
    def __new__(
        cls, sessions_max: int, idle_ms_max: int, bytes_max: int, partitions_max: int = ...
    ) -> Self: ...
    def __len__(self) -> int: ...
    @property
    def partitions(self) -> int: ...

def used_ms_of(session: FetchSession) -> int: ...
