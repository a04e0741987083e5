from typing import Any, Self, final

from typing_extensions import Buffer

from broker._native.messages.schema import Program

@final
class Decoding:
    def __new__(cls, program: Program, data: bytes, weight_max: int = ...) -> Self: ...
    def step(self, weight: int) -> dict[str, Any] | None: ...

def decode(
    program: Program,
    data: Buffer,
    offset: int = 0,
    weight_max: int = ...,
    *,
    as_views: bool = False,
) -> tuple[dict[str, Any], int]: ...
