"""What chooses among the possible states that a crash leaves: chance, or each of them in turn."""

from collections.abc import Callable, Iterator
from random import Random
from typing import TypeVar

_T = TypeVar("_T")
_KEPT = (0.0, 0.1, 0.5, 0.5, 0.9, 1.0)  # share of unsynced writes that survive, by state


class Sampled:
    """Choose randomly: nearly nothing, nearly everything, or any mixture survives."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._kept = rng.choice(_KEPT)
        self.is_torn = rng.random() < 0.4

    def version(self, first: int, last: int) -> int:
        """Choose the newest, the oldest, or a version between."""
        if first == last:
            return first
        if self._rng.random() < self._kept:
            return last
        return first if self._rng.random() < 0.7 else self._rng.randint(first, last)


class Each:
    """Choose one after another, as a counter whose digits have as many values as versions."""

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
        """Advance to the next; return False after the last."""
        self._place = 0
        while self._digits:
            value, count = self._digits.pop()
            if value + 1 < count:
                self._digits.append((value + 1, count))
                return True
        return False


def each(make: Callable[[Each], _T], at_most: int) -> Iterator[_T]:
    """Yield the results of every choice, or of the first ones."""
    choices = Each()
    for _ in range(at_most):
        yield make(choices)
        if not choices.advance():
            return
