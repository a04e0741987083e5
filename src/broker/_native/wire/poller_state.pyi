from typing import Self

from typing_extensions import disjoint_base

from broker._native.log.topic_table import TopicTable
from broker._native.log.turn import Turn
from broker._native.wire.connection import Connection

@disjoint_base
class PollerState:
    authorizes: bool
    def __new__(cls) -> Self: ...
    @property
    def epoll_fd(self) -> int: ...
    @property
    def turn(self) -> Turn: ...
    @property
    def topics(self) -> TopicTable: ...
    @property
    def connections(self) -> dict[int, Connection]: ...
    @property
    def closed_undecided(self) -> int: ...
    @property
    def reply_memory_bytes(self) -> int: ...
