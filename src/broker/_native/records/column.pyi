from typing import final

from typing_extensions import Buffer

@final
class Column:
    @property
    def count(self) -> int: ...
    @property
    def item_size(self) -> int: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int) -> memoryview[int]: ...

__pyx_capi__: dict[str, object]  # what column.pxd declares

def gather(
    data: Buffer, start: Column, length: Column, reuse: dict[str, Column] | None = None
) -> tuple[Column, Column, Column | None, int]: ...
def microseconds(
    timestamp: Column, reuse: dict[str, Column] | None = None
) -> tuple[Column, Column | None, int]: ...
