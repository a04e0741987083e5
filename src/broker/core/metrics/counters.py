"""What Python code counts: plain integers, which the code that does the work increments."""

from collections import Counter
from typing import Final

from broker.core.metrics.limits import LABEL_VALUES_MAX

OTHER: Final = "(other)"  # the sum of what has no series of its own; no topic has such a name


class Bounded:
    """Counts by the values of labels; above a number of them, further values count as one."""

    __slots__ = ("_max", "counts")

    def __init__(self, values_max: int = LABEL_VALUES_MAX) -> None:
        """Begin without counts."""
        self.counts: Counter[tuple[str, ...]] = Counter()
        self._max = values_max

    def add(self, *labels: str, count: int = 1) -> None:
        """Count for values of the labels; the last one is replaced if there are too many.

        All are, if there are too many even then.
        """
        if labels not in self.counts and len(self.counts) >= self._max:
            labels = (*labels[:-1], OTHER)
            if labels not in self.counts and len(self.counts) >= 2 * self._max:
                labels = (OTHER,) * len(labels)
        self.counts[labels] += count


class Counters:
    """The counters of one broker."""

    __slots__ = ("accepted", "closed", "login_failures", "logins", "refused")

    def __init__(self) -> None:
        """Begin at 0."""
        self.accepted = Bounded()  # by listener
        self.closed = Bounded()  # by listener and reason
        self.logins = Bounded()  # by listener and mechanism
        self.login_failures = Bounded()  # by listener, mechanism and reason
        self.refused = Bounded()  # by reason
