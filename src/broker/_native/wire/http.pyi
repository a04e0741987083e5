from typing import Self, final

from broker._native.wire.connection import Dialect

@final
class Http(Dialect):
    def __new__(cls, protocol: object) -> Self: ...
