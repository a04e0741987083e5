from broker._native.records.column_source import ColumnSource

def encode_messages(
    source: ColumnSource,
    *,
    magic: int,
    attributes: int = 0,
    are_relative: bool = False,
    bytes_max: int = ...,
) -> bytes: ...
def encode_message(
    value: bytes, *, magic: int, attributes: int, offset: int, timestamp: int
) -> bytes: ...
