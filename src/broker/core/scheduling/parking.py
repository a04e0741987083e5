"""The memory budget of requests that wait for something, and the early end of long polls.

All parked requests share one limit. A long poll can be answered at any time: above the limit, the
largest is, and among those of one size the one that has waited longest. Other waits, for the disk
or another thread, end by themselves.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class _Poll:
    """A long poll that waits."""

    __slots__ = ("wake", "weight")

    def __init__(self, weight: int, wake: Callable[[], None]) -> None:
        self.weight = weight
        self.wake = wake


class Parking:
    """The memory of all parked requests."""

    def __init__(self, bytes_max: int) -> None:
        """Start without requests.

        Args:
            bytes_max: what all parked requests together may take.
        """
        self.when_less: Callable[[], None] = lambda: None  # called when more may be free
        self._bytes_max = bytes_max
        self._parked = 0  # bytes, including those of polls
        self._polling = 0  # bytes of polls that can be woken
        self._woken = 0  # bytes of polls that were woken and have not ended yet
        # By the bit length of their weight: close enough to the largest, found in constant time.
        self._polls: dict[int, dict[_Poll, None]] = {}

    @property
    def bytes(self) -> int:
        """The bytes of all parked requests."""
        return self._parked

    def has_room_for(self, weight: int) -> bool:
        """Whether one more request, which may have to wait, may be started.

        It may take half of what is left beside the waits that cannot be ended early, so a smaller
        one can always start. One that is larger than half of the limit may be parked alone.
        """
        stuck = self._parked - self._polling
        return stuck == 0 or 2 * weight <= self._bytes_max - stuck

    def enter(self, weight: int, *, is_poll: bool = False) -> None:
        """Count a request that begins to wait; `poll` follows if it is a long poll."""
        self._parked += weight
        if not is_poll:
            self._reclaim()

    def leave(self, weight: int, *, was_woken: bool) -> None:
        """Stop counting a request."""
        self._parked -= weight
        if was_woken:
            self._woken -= weight
        self.when_less()

    @contextmanager
    def poll(self, weight: int, wake: Callable[[], None]) -> Iterator[None]:
        """Allow a parked request to be woken when its memory is needed."""
        poll = _Poll(weight, wake)
        alike = self._polls.setdefault(weight.bit_length(), {})
        alike[poll] = None
        self._polling += weight
        self._reclaim()
        self.when_less()
        try:
            yield
        finally:
            if poll in alike:
                self._remove(poll)

    def _reclaim(self) -> None:
        while self._polls and self._parked - self._woken > self._bytes_max:
            poll = next(iter(self._polls[max(self._polls)]))
            self._remove(poll)
            self._woken += poll.weight
            poll.wake()

    def _remove(self, poll: _Poll) -> None:
        length = poll.weight.bit_length()
        alike = self._polls[length]
        del alike[poll]
        if not alike:
            del self._polls[length]
        self._polling -= poll.weight
