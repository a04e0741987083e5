from collections.abc import Iterable
from typing import final

@final
class KeyFilter:
    def __new__(cls, keys: bytes | Iterable[bytes]) -> KeyFilter: ...

__pyx_capi__: dict[str, object]  # what key_filter.pxd declares
