from os import PathLike
from typing import final

from typing_extensions import Buffer

@final
class CleanedSegment:
    base_offset: int
    size: int
    max_timestamp: int
    def __new__(
        cls, folder: str | PathLike[str], base_offset: int, index_interval_bytes: int
    ) -> CleanedSegment: ...
    def append(self, batches: Buffer) -> None: ...
    def finish(self) -> None: ...
    def discard(self) -> None: ...
