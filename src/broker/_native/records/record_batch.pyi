from collections.abc import Callable, Iterator
from typing import TypedDict, type_check_only

@type_check_only
class _BatchInfo(TypedDict):
    base_offset: int
    size: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

__pyx_capi__: dict[str, object]  # what record_batch.pxd declares

def validate(data: bytes) -> str | None: ...
def header(data: bytes, position: int = 0) -> _BatchInfo: ...
def iterate(
    data: bytes, decompress: Callable[[int, bytes], bytes] | None = None
) -> Iterator[
    tuple[int, int, bytes | None, bytes | None, list[tuple[bytes | None, bytes | None]]]
]: ...
