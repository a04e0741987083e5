from collections.abc import Callable, Iterable
from typing import Self, final

from broker._native.log.topic_table import TopicTable
from broker._native.log.turn import Turn
from broker._native.wire.connection import Connection, PendingReply, Shared
from broker._native.wire.fetch import FetchSessions

@final
class Poller(Shared):
    def __new__(
        cls,
        turn: Turn,
        topics: TopicTable,
        fetch_sessions: FetchSessions,
        *,
        frame_bytes_max: int = ...,
    ) -> Self: ...
    @property
    def owes_replies(self) -> bool: ...
    def serve_with(
        self,
        apis: Iterable[tuple[int, int, int, int]],
        dispatch: Callable[[list[PendingReply]], object],
        on_close: Callable[[Connection, str], object],
    ) -> None: ...
    def add(self, fd: int, peer_host: str, session: object) -> Connection: ...
    def __call__(self) -> None: ...
    def tell_time(self) -> None: ...
    def end(self) -> None: ...
    def sweep(self, idle_ms_max: int, stalled_ms_max: int, first_ms_max: int) -> None: ...
    def close(self) -> None: ...
