from typing import Self, final

from broker._native.log.open_files import Openable, OpenFiles

__pyx_capi__: dict[str, object]

@final
class Segment(Openable):
    def __new__(cls, files: OpenFiles | None, folder: bytes, base_offset: int) -> Self: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def written(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
