from typing import Self, final

__pyx_capi__: dict[str, object]

@final
class Transactions:
    def __new__(cls) -> Self: ...
    @property
    def first_undecided(self) -> int: ...
