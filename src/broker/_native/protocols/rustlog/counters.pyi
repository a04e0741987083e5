from typing import final

@final
class RustLogCounters:
    messages_produced: int
    messages_fetched: int
    bytes_in: int
    bytes_out: int
    active_connections: int
    def add_produce_latency(self, ns: int) -> None: ...
    def add_fetch_latency(self, ns: int) -> None: ...
    @property
    def produce_percentiles(self) -> tuple[int, int, int]: ...
    @property
    def fetch_percentiles(self) -> tuple[int, int, int]: ...
    @staticmethod
    def now_ns() -> int: ...

__pyx_capi__: dict[str, object]  # what rustlog_counters.pxd declares
