from collections.abc import Callable
from ssl import MemoryBIO, SSLObject
from typing import Self, final

from broker._native.wire.connection import Connection

@final
class TlsChannel:
    def __new__(
        cls,
        wrap: Callable[[MemoryBIO, MemoryBIO], SSLObject] | None,
        on_secured: Callable[[Connection], object] | None,
        on_failed: Callable[[str, str], object] | None = ...,
        established: tuple[SSLObject, MemoryBIO, MemoryBIO] | None = ...,
    ) -> Self: ...
    @property
    def ssl_object(self) -> SSLObject | None: ...
    @property
    def is_established(self) -> bool: ...
    @property
    def reason(self) -> str | None: ...
    @property
    def started_ms(self) -> int: ...
    @property
    def opened(self) -> int: ...
