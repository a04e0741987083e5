from typing import Self, final

def check_run(data: bytes, position: int, count: int) -> str | None: ...

@final
class RunBatches:
    def __new__(
        cls, data: bytes, position: int, count: int, *, batch_bytes_max: int, timestamp_ms: int
    ) -> Self: ...
    @property
    def payload_bytes(self) -> int: ...
    def next(self) -> bytes | None: ...

__pyx_capi__: dict[str, object]  # what record_run.pxd declares
