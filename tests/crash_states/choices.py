"""What decides which of its possible states a crash leaves: chance, or each of them in turn."""

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeVar

_T = TypeVar("_T")
_KEPT = (0.0, 0.1, 0.5, 0.5, 0.9, 1.0)  # how much of what was not synced, drawn for each state


class Sampled:
    """By chance: nearly nothing, nearly everything, or any mixture."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._kept = rng.choice(_KEPT)
        self.is_torn = rng.random() < 0.4

    def version(self, first: int, last: int) -> int:
        """The newest, the oldest, or one between."""
        if first == last:
            return first
        if self._rng.random() < self._kept:
            return last
        return first if self._rng.random() < 0.7 else self._rng.randint(first, last)


class Each:
    """One after the other, as a counter whose digits have as many values as there are versions."""

    is_torn = False

    def __init__(self) -> None:
        self._digits: list[tuple[int, int]] = []  # value, number of values
        self._place = 0

    def version(self, first: int, last: int) -> int:
        if self._place == len(self._digits):
            self._digits.append((0, last - first + 1))
        value, _ = self._digits[self._place]
        self._place += 1
        return first + value

    def advance(self) -> bool:
        """Go on to the next; False behind the last."""
        self._place = 0
        while self._digits:
            value, count = self._digits.pop()
            if value + 1 < count:
                self._digits.append((value + 1, count))
                return True
        return False


def each(make: Callable[[Each], _T], at_most: int) -> Iterator[_T]:
    """What is made of every choice there is, or of the first ones."""
    choices = Each()
    for _ in range(at_most):
        yield make(choices)
        if not choices.advance():
            return
