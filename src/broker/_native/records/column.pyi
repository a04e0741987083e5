from typing import final

@final
class Column:
    count: int
    item_size: int
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

__pyx_capi__: dict[str, object]  # what column.pxd declares
