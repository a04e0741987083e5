"""A queue of work on the partitions of transactions: a limited number of steps per turn.

A transaction may touch thousands of partitions: each is admitted, synced, and given a marker.
"""

from collections import deque
from collections.abc import Callable, Iterator

from broker.model import limits


class StepQueue:
    """Work as iterators, which take a step for one partition at a time."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Start empty; `wake` asks for a `tick` in a later turn."""
        self._wake = wake
        self._begun: deque[Iterator[None]] = deque()
        self._left = limits.MARKERS_PER_TURN  # steps until the next tick

    @property
    def wants_turn(self) -> bool:
        """Whether there is work left, or new work would have to wait."""
        return bool(self._begun) or self._left <= 0

    def begin(self, steps: Iterator[None]) -> None:
        """Take the first steps now, as many as this turn has left, the others in later turns."""
        if not self._take(steps):
            self._begun.append(steps)
        if self._left <= 0:
            self._wake()

    def queue(self, steps: Iterator[None]) -> None:
        """Take every step in later turns."""
        self._begun.append(steps)
        self._wake()

    def tick(self) -> None:
        """Begin a turn, and continue with the oldest work; work that raises is dropped."""
        self._left = limits.MARKERS_PER_TURN
        while self._begun and self._left > 0:
            steps = self._begun.popleft()
            if not self._take(steps):
                self._begun.appendleft(steps)

    def _take(self, steps: Iterator[None]) -> bool:
        """Take steps while the turn has some left, also for nested work; return whether all."""
        if self._left <= 0:
            return False
        is_first = True
        for _ in steps:
            is_first = False
            self._left -= 1
            if self._left <= 0:
                return False
        self._left -= is_first  # work without a step costs one, too
        return True
