from collections.abc import Callable
from enum import Enum
from typing import Self, final

from broker._native.wire.connection import Wait

class RelayEvent(Enum):
    ROOM = "room"
    STOPPED = "stopped"
    CLOSED = "closed"

@final
class Relay(Wait):
    def __new__(cls, notify: Callable[[RelayEvent], object]) -> Self: ...
    @property
    def is_open(self) -> bool: ...
    def send(self, body: bytes) -> bool: ...
    def end(self, last: bytes | None, *, is_last: bool) -> None: ...
