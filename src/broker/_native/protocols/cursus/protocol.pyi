from collections.abc import Callable
from typing import Self, final

from broker._native.protocols.cursus.publish import RoundRobin
from broker._native.protocols.cursus.stream_heads import StreamTables
from broker._native.wire.connection import NativeProtocol

@final
class Cursus(NativeProtocol):
    def __new__(
        cls,
        fallback: object,
        round_robin: RoundRobin | None = None,
        state_of: Callable[..., object] | None = None,
        streams: StreamTables | None = None,
    ) -> Self: ...
