from typing import Self, final

from broker._native.protocols.rustlog.counters import RustLogCounters
from broker._native.wire.connection import NativeProtocol
from broker.model.log_results import LogState

@final
class RustLog(NativeProtocol):
    def __new__(
        cls,
        fallback: object,
        counters: RustLogCounters,
        *,
        write_failed: bytes,
        write_refused: dict[LogState, bytes] | None = None,
    ) -> Self: ...
    @property
    def counters(self) -> RustLogCounters: ...
