"""What requests keep in memory while they wait for something, and which long polls end early.

All parked requests together have one limit. A long poll can be answered at any time: above the
limit the largest one is, of several of one size the one that has waited longest. Other waits, for
the disk or another thread, end by themselves.
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
        """Begin with none.

        Args:
            bytes_max: what parked requests may take together.
        """
        self.when_less: Callable[[], None] = lambda: None  # called when there may be more room
        self._bytes_max = bytes_max
        self._parked = 0  # bytes, with those of polls
        self._polling = 0  # bytes of polls that can be woken
        self._woken = 0  # bytes of polls that were, and are not answered yet
        # By the bit length of their weight: near enough for the largest, and found at once.
        self._polls: dict[int, dict[_Poll, None]] = {}

    @property
    def bytes(self) -> int:
        """What they take."""
        return self._parked

    def has_room_for(self, weight: int) -> bool:
        """Whether one more request may be begun that may have to wait.

        It may take half of what is left beside waits that cannot be ended: so there is always room
        for a smaller one. One that is larger than the half may be parked alone.
        """
        stuck = self._parked - self._polling
        return stuck == 0 or 2 * weight <= self._bytes_max - stuck

    def enter(self, weight: int, *, is_poll: bool = False) -> None:
        """Count a request that begins to wait; `poll` follows if it is a long poll."""
        self._parked += weight
        if not is_poll:
            self._reclaim()

    def leave(self, weight: int, *, was_woken: bool) -> None:
        """Count it no more."""
        self._parked -= weight
        if was_woken:
            self._woken -= weight
        self.when_less()

    @contextmanager
    def poll(self, weight: int, wake: Callable[[], None]) -> Iterator[None]:
        """Let a parked request be woken when its memory is needed."""
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
