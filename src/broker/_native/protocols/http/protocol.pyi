from typing import Self, final

from broker._native.wire.connection import NativeProtocol

@final
class Http(NativeProtocol):
    def __new__(cls, fallback: object) -> Self: ...
