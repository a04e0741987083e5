from typing_extensions import Buffer

from broker._native.records.column import Column

def gather(
    data: Buffer, start: Column, length: Column, reuse: dict[str, Column] | None = None
) -> tuple[Column, Column, Column | None, int]: ...
def microseconds(
    timestamp: Column, reuse: dict[str, Column] | None = None
) -> tuple[Column, Column | None, int]: ...
