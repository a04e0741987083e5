from typing import final

from broker._native.wire.connection import Wait

@final
class Mute(Wait): ...

__pyx_capi__: dict[str, object]  # what mute.pxd declares
