from collections.abc import Iterable
from typing import final

__pyx_capi__: dict[str, object]  # what rows.pxd declares

@final
class KeyFilter:
    def __new__(cls, keys: bytes | Iterable[bytes]) -> KeyFilter: ...
