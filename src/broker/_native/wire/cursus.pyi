from typing import Self, final

from broker._native.wire.connection import NativeProtocol
from broker._native.wire.cursus_publish import RoundRobin

@final
class Cursus(NativeProtocol):
    def __new__(cls, fallback: object, round_robin: RoundRobin | None = None) -> Self: ...
