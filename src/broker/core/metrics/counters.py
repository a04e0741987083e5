"""What Python code counts: plain integers, which the code that does the work increments."""

from collections import Counter, defaultdict
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

    __slots__ = (
        "accepted",
        "closed",
        "errors",
        "exports",
        "failed_reads",
        "failed_writes",
        "login_failures",
        "logins",
        "refused",
    )

    def __init__(self) -> None:
        """Begin at 0."""
        self.accepted = Bounded()  # by listener
        self.closed = Bounded()  # by listener and reason
        self.logins = Bounded()  # by listener and mechanism
        self.login_failures = Bounded()  # by listener, mechanism and reason
        self.refused = Bounded()  # by reason
        self.exports = Bounded()  # by result
        # Of Kafka's answers that Python makes, by API key and error code: few, as both are known.
        self.errors: defaultdict[int, dict[int, int]] = defaultdict(dict)
        # Of partitions that have no log here; the others are counted by their logs.
        self.failed_writes = 0
        self.failed_reads = 0
