"""Work on the partitions of transactions: so many in one turn of the loop, the others in the next.

A transaction may touch thousands of them: each is opened to its producer, synced, given a marker.
"""

from collections import deque
from collections.abc import Callable, Iterator

from broker.model import limits


class StepQueue:
    """What is to be done, each as an iterator that takes a step for one partition."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """Begin with nothing; `wake` asks for a `tick` in a later turn."""
        self._wake = wake
        self._begun: deque[Iterator[None]] = deque()
        self._left = limits.MARKERS_PER_TURN  # for steps, until the next tick

    @property
    def wants_turn(self) -> bool:
        """Whether there is something left to do, or no room for what begins now."""
        return bool(self._begun) or self._left <= 0

    def begin(self, steps: Iterator[None]) -> None:
        """Take the first steps at once, as far as this turn has room, the others in later turns."""
        if not self._take(steps):
            self._begun.append(steps)
        if self._left <= 0:
            self._wake()

    def queue(self, steps: Iterator[None]) -> None:
        """Take every step in later turns."""
        self._begun.append(steps)
        self._wake()

    def tick(self) -> None:
        """Begin a turn, and go on with what was begun first; what fails is dropped."""
        self._left = limits.MARKERS_PER_TURN
        while self._begun and self._left > 0:
            steps = self._begun.popleft()
            if not self._take(steps):
                self._begun.appendleft(steps)

    def _take(self, steps: Iterator[None]) -> bool:
        """Take steps while there is room, which others may begin to use in them; whether all."""
        if self._left <= 0:
            return False
        is_first = True
        for _ in steps:
            is_first = False
            self._left -= 1
            if self._left <= 0:
                return False
        self._left -= is_first  # Where there was nothing to do, it took a look.
        return True
