from collections.abc import Iterable
from typing import final

@final
class KeyFilter:
    def __new__(cls, keys: bytes | Iterable[bytes]) -> KeyFilter: ...
