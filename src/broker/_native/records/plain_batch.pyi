from collections.abc import Iterable

__pyx_capi__: dict[str, object]  # what plain_batch.pxd declares

def plain_batch(
    records: Iterable[tuple[bytes | None, bytes | None]], *, timestamp_ms: int
) -> bytes: ...
