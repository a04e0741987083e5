from typing import Any

from broker._native.wire.schema import Program

def encode(program: Program, value: dict[str, Any]) -> bytes: ...
