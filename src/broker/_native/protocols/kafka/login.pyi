from collections.abc import Iterable
from typing import Final, Self, final

from broker._native.wire.connection import NativeProtocol

BARE_TOKEN: Final[int]

@final
class KafkaGate(NativeProtocol):
    def __new__(
        cls,
        fallback: object,
        apis: Iterable[tuple[int, int, int, int]],
        *,
        frame_bytes_max: int,
    ) -> Self: ...
    @property
    def frame_bytes_max(self) -> int: ...
