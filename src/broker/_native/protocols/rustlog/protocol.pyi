from typing import Self, final

from broker._native.protocols.rustlog.counters import RustLogCounters
from broker._native.wire.connection import NativeProtocol

@final
class RustLog(NativeProtocol):
    def __new__(
        cls, fallback: object, counters: RustLogCounters, *, write_failed: bytes
    ) -> Self: ...
    @property
    def counters(self) -> RustLogCounters: ...
