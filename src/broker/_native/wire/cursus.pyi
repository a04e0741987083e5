from typing import Self, final

from broker._native.wire.connection import Dialect

@final
class Cursus(Dialect):
    def __new__(cls, protocol: object) -> Self: ...
