from collections.abc import Mapping
from typing import Self, final

from broker._native.messages.schema import Program

@final
class Encoding:
    def __new__(
        cls, program: Program, value: Mapping[str, object], errors: dict[int, int] | None = None
    ) -> Self: ...
    def step(self, weight: int) -> bytes | None: ...

def encode(
    program: Program, value: Mapping[str, object], errors: dict[int, int] | None = None
) -> bytes: ...
