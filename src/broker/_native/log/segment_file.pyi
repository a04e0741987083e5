from typing import Self

from typing_extensions import disjoint_base

from broker._native.log.open_files import Openable, OpenFiles

@disjoint_base
class SegmentFile(Openable):
    def __new__(cls, files: OpenFiles | None, folder: bytes, base_offset: int) -> Self: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def written(self) -> int: ...
