from collections.abc import Callable, Iterable
from typing import Self, final

from typing_extensions import disjoint_base

@final
class WalkedTransactions:
    def __new__(cls, aborted: Iterable[tuple[int, int, int]] = ()) -> Self: ...

@disjoint_base
class BatchWalk:
    def __new__(
        cls,
        *_: object,
        decompress: Callable[[int, memoryview, memoryview], int],
        decompressed_bytes_max: int,
        aborted: Iterable[tuple[int, int, int]] = (),
        **__: object,
    ) -> Self: ...
