from collections.abc import Iterable
from typing import Self, final

from broker._native.protocols.kafka.fetch import FetchSessions
from broker._native.wire.connection import NativeProtocol

@final
class Kafka(NativeProtocol):
    leaves_all: bool
    def __new__(
        cls,
        fallback: object,
        apis: Iterable[tuple[int, int, int, int]],
        sessions: FetchSessions,
        *,
        frame_bytes_max: int,
    ) -> Self: ...
    @property
    def sessions(self) -> FetchSessions: ...
    @property
    def frame_bytes_max(self) -> int: ...
