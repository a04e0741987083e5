"""How long the answer to a failed login is held back: longer with each one that follows.

The first is held back for as long as the listener says. One that follows, from the same address for
the same user, is held back twice as long as the one before. A login that succeeds is not held back,
so guessing becomes slow and nobody is locked out. Of IPv6 a network counts as one address.
"""

from collections.abc import Callable

from broker.model.address import origin
from broker.model.sasl_limits import (
    FAILURE_DELAY_MS_MAX,
    FAILURE_DELAY_TIMES_MAX,
    FAILURES_FORGOTTEN_MS,
    FAILURES_REMEMBERED_MAX,
)


class FailureDelays:
    """The last failures, by address and user."""

    def __init__(self, monotonic_ms: Callable[[], int]) -> None:
        """Remember none."""
        self._monotonic_ms = monotonic_ms
        # The delay and the time of the last one, the oldest first. Keys are hashes, so that long
        # names take no memory; two that share one share their delay.
        self._last: dict[int, tuple[int, int]] = {}

    def next_ms(self, host: str, user: str, least_ms: int) -> int:
        """Return for how long to hold back the answer to a failure."""
        if not user:
            return least_ms  # nobody's password was guessed
        now_ms, key = self._monotonic_ms(), _key(host, user)
        before_ms, at_ms = self._last.pop(key, (0, now_ms))
        delay_ms = least_ms
        if before_ms and now_ms - at_ms < FAILURES_FORGOTTEN_MS:
            longest_ms = min(least_ms * FAILURE_DELAY_TIMES_MAX, FAILURE_DELAY_MS_MAX)
            delay_ms = max(least_ms, min(2 * before_ms, longest_ms))
        if len(self._last) >= FAILURES_REMEMBERED_MAX:
            del self._last[next(iter(self._last))]
        self._last[key] = delay_ms, now_ms
        return delay_ms

    def forget(self, host: str, user: str) -> None:
        """Begin anew: the user has logged in from there."""
        self._last.pop(_key(host, user), None)


def _key(host: str, user: str) -> int:
    return hash((origin(host), user))
