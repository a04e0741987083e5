from typing import Any, Self, final

from broker._native.messages.schema import Program

@final
class Encoding:
    def __new__(cls, program: Program, value: dict[str, Any]) -> Self: ...
    def step(self, weight: int) -> bytes | None: ...

def encode(program: Program, value: dict[str, Any]) -> bytes: ...
