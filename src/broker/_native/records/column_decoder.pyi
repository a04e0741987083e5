from collections.abc import Callable, Collection, Iterable
from typing import TypeAlias

from typing_extensions import Buffer

from broker._native.records.column import Column

_Decompress: TypeAlias = Callable[[int, memoryview, memoryview], int]

COLUMN_NAMES: tuple[str, ...]

def decode_columns(
    data: Buffer,
    columns: Collection[str],
    decompress: _Decompress,
    *,
    bytes_max: int,
    check_crc: bool = True,
    min_offset: int | None = None,
    max_offset: int | None = None,
    min_timestamp: int | None = None,
    max_timestamp: int | None = None,
    key_filter: bytes | Iterable[bytes] | None = None,
    aborted: Iterable[tuple[int, int]] | None = None,
    reuse: dict[str, Column] | None = None,
    is_strict: bool = False,
) -> tuple[int, int, Buffer, dict[str, Column]]: ...
