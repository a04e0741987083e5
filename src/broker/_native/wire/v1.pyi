from typing import Self, final

from broker._native.wire.connection import Dialect

@final
class V1(Dialect):
    has_followers: bool
    def __new__(cls, protocol: object, refusal: bytes) -> Self: ...
