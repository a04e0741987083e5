from typing import Self, final

from broker._native.wire.connection import NativeProtocol

@final
class V1(NativeProtocol):
    has_followers: bool
    def __new__(cls, fallback: object, refusal: bytes) -> Self: ...
