from typing_extensions import Buffer

__pyx_capi__: dict[str, object]  # what up_conversion.pxd declares

def convert_messages(
    messages: Buffer, *, magic: int = ..., append_time: int | None = None
) -> bytes: ...
def read_wrapper(messages: Buffer) -> tuple[int, int, int | None, int, int] | None: ...
