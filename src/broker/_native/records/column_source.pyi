from typing import final

from typing_extensions import Buffer

__pyx_capi__: dict[str, object]  # what column_source.pxd declares

@final
class ColumnSource:
    def __new__(cls, count: int) -> ColumnSource: ...
    @property
    def count(self) -> int: ...
    def spans(self, name: str, data: Buffer, starts: Buffer, lengths: Buffer) -> None: ...
    def ends(
        self,
        name: str,
        data: Buffer | None,
        ends: Buffer,
        *,
        validity: Buffer | None = None,
        validity_first: int = 0,
    ) -> None: ...
    def header_ends(self, ends: Buffer) -> None: ...
    def header_lists(
        self, ends: Buffer, *, validity: Buffer | None = None, validity_first: int = 0
    ) -> None: ...
    def timestamps(
        self,
        values: Buffer,
        *,
        units: int = 1,
        validity: Buffer | None = None,
        validity_first: int = 0,
    ) -> None: ...
    def offsets(self, values: Buffer) -> None: ...
