from typing import Any

from typing_extensions import Buffer

from broker._native.wire.schema import Program

def decode(
    program: Program,
    data: Buffer,
    offset: int = 0,
    weight_max: int = ...,
    *,
    as_views: bool = False,
) -> tuple[dict[str, Any], int]: ...
