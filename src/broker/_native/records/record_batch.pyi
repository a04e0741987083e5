from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias, TypedDict, type_check_only

from typing_extensions import Buffer

_RecordHeaders: TypeAlias = Sequence[tuple[bytes, bytes | None]]

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
def build(
    records: Iterable[tuple[bytes | None, bytes | None, _RecordHeaders]],
    timestamp: int,
    *,
    base_offset: int = 0,
    leader_epoch: int = 0,
    is_control: bool = False,
    is_transactional: bool = False,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    codec: int = 0,
    compress: Callable[[bytes], Buffer] | None = None,
) -> bytes: ...
def iterate(
    data: bytes, decompress: Callable[[int, bytes], bytes] | None = None
) -> Iterator[
    tuple[int, int, bytes | None, bytes | None, list[tuple[bytes | None, bytes | None]]]
]: ...
