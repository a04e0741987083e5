"""Connections that have not logged in: how many there may be, and for how long."""

from asyncio import AbstractEventLoop, TimerHandle
from collections import deque
from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, cast

from broker._native.wire.connection import Connection
from broker.model.address import origin
from broker.model.sasl_limits import LOGIN_SECONDS, LOGINS_WAITING_MAX

if TYPE_CHECKING:
    from broker.core.session import Session

_ROOM = 64  # the share of all for which room is made at once


def _has_logged_in(connection: Connection) -> bool:
    """Whether a connection has logged in once; it `needs_login` while it does so again."""
    return not connection.needs_login or cast("Session", connection.session).is_identified


class WaitingLogins:
    """Closes connections that do not log in: each after a time, and some of too many.

    Those are the oldest ones of the address (of IPv6: network) that has most of them: the
    connections of a flood make room for each other, while those of other addresses have their time.
    """

    def __init__(
        self,
        loop: AbstractEventLoop,
        waiting_max: int = LOGINS_WAITING_MAX,
        seconds: float = LOGIN_SECONDS,
    ) -> None:
        """Start without connections."""
        self._loop = loop
        self._waiting_max = waiting_max
        self._seconds = seconds
        # Until when each may log in, and for whom it counts; the oldest first.
        self._until: dict[Connection, tuple[float, str]] = {}
        self._timer: TimerHandle | None = None

    def __len__(self) -> int:
        """How many connections it has; some of them may have logged in already."""
        return len(self._until)

    def add(self, connection: Connection) -> None:
        """Add a new connection."""
        until = self._loop.time() + self._seconds
        self._until[connection] = until, origin(connection.peer_host)
        if len(self._until) > self._waiting_max:
            self._make_room()
        self._set_timer()

    def remove(self, connection: Connection) -> None:
        """Forget a connection, which has been closed."""
        self._until.pop(connection, None)

    def _close(self, connection: Connection, reason: str) -> None:
        del self._until[connection]
        if not _has_logged_in(connection):
            connection.abort(f"has not logged in: {reason}")

    def _make_room(self) -> None:
        """Forget those that have logged in, and close the oldest of whoever has most.

        Looking through all of them takes as long as accepting one: it is not done for each.
        """
        by_origin: dict[str, deque[tuple[int, Connection]]] = {}
        for number, (each, (_, whose)) in enumerate(list(self._until.items())):
            if _has_logged_in(each):
                del self._until[each]
            else:
                by_origin.setdefault(whose, deque()).append((number, each))
        # Whoever has most is first; of those that have as many, whose oldest one is the oldest.
        most = [(-len(oldest), oldest[0][0], oldest) for oldest in by_origin.values()]
        heapify(most)
        while len(self._until) > self._waiting_max - self._waiting_max // _ROOM:
            oldest = most[0][2]
            self._close(oldest.popleft()[1], "others wait for their logins")
            number = oldest[0][0] if oldest else 0
            heapreplace(most, (-len(oldest), number, oldest))

    def _set_timer(self) -> None:
        if self._timer is None and self._until:
            until, _ = next(iter(self._until.values()))
            self._timer = self._loop.call_at(until, self._end_late)

    def _end_late(self) -> None:
        self._timer = None
        now = self._loop.time()
        for connection, (until, _) in list(self._until.items()):
            if until > now:
                break
            self._close(connection, f"within {self._seconds} s")
        self._set_timer()
