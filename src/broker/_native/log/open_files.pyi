from typing import Self, final

from typing_extensions import disjoint_base

@final
class OpenFile:
    def __new__(cls, fd: int) -> Self: ...
    @property
    def fd(self) -> int: ...

@disjoint_base
class Openable:
    @property
    def fd(self) -> int: ...

@final
class OpenFiles:
    count_max: int
    def __new__(cls, count_max: int = ...) -> Self: ...
    @property
    def count(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    def close_idle(self, at_most: int) -> int: ...
