from typing import final

from broker._native.wire.connection import Wait

__pyx_capi__: dict[str, object]  # what stream_lookup.pxd declares

@final
class StreamLookup(Wait):
    @property
    def key(self) -> bytes: ...
    def end(self) -> None: ...
