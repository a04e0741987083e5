from typing import Self, final

from broker._native.wire.connection import NativeProtocol

@final
class CursusGate(NativeProtocol):
    def __new__(cls, fallback: object, *, frame_bytes_max: int) -> Self: ...
    @property
    def frame_bytes_max(self) -> int: ...
