"""The events that are not written yet: a bounded queue that counts what it has no room for. Pure.

    put ──> events ──> take ──> written: forget ─┐
                 └──────────<── failed: keep ────┘   until then, with fail-closed, requests end here

What was dropped is an event, too: it precedes the next one that is taken.
"""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from broker.core.security.audit import Event, is_refusal
from broker.core.security.ocsf import Dropped, Recorded


class Noted(NamedTuple):
    """An event and when it was."""

    time_ms: int
    event: Recorded


class AuditQueue:
    """Holds events until they are written; used by the loop only."""

    def __init__(
        self, events_max: int, *, is_fail_closed: bool, wall_ms: Callable[[], int]
    ) -> None:
        """Hold nothing yet.

        Args:
            events_max: how many events are held; more are dropped.
            is_fail_closed: whether a request is refused when its event may be lost.
            wall_ms: returns the time in milliseconds since 1970.
        """
        self._events_max = events_max
        self._is_fail_closed = is_fail_closed
        self._wall_ms = wall_ms
        self._events: deque[Noted] = deque()
        self._taken = 0  # from the front: they are being written
        self._dropped = 0  # since the last event that says so
        self._dropped_in_all = 0
        self.is_failing = False  # whether the last write has failed

    def __len__(self) -> int:
        """Return how many events are not written."""
        return len(self._events)

    @property
    def dropped(self) -> int:
        """How many events were dropped since the start."""
        return self._dropped_in_all

    def put(self, event: Event) -> bool:
        """Take an event if there is room; return whether what it is about may go on.

        While nothing can be written, only what is refused anyway is taken in fail-closed mode: an
        event that says that a request was allowed would not be true.
        """
        is_lost = len(self._events) >= self._events_max
        is_refused = self._is_fail_closed and (is_lost or self.is_failing)
        if is_lost or (is_refused and not is_refusal(event)):
            self._dropped += 1
            self._dropped_in_all += 1
            return not is_refused
        self._events.append(Noted(self._wall_ms(), event))
        return not is_refused

    def put_always(self, event: Recorded) -> None:
        """Take an event of the broker itself, of which there are few."""
        self._events.append(Noted(self._wall_ms(), event))

    def take(self, count_max: int) -> list[Noted]:
        """Return the oldest events, which are written next; they are held until `written`."""
        if self._dropped:
            self._events.appendleft(Noted(self._wall_ms(), Dropped(self._dropped)))
            self._dropped = 0
        self._taken = min(count_max, len(self._events))
        return [self._events[place] for place in range(self._taken)]

    def written(self) -> None:
        """Forget the events that were taken."""
        for _ in range(self._taken):
            self._events.popleft()
        self._taken = 0
        self.is_failing = False

    def not_written(self) -> None:
        """Keep the events that were taken: they are taken again."""
        self._taken = 0
        self.is_failing = True
