"""What Python code counts: plain integers, which the code that does the work increments."""

from collections import Counter
from typing import Final

from broker.core.metrics.limits import LABEL_VALUES_MAX, TOPIC_SERIES_MAX

OTHER: Final = "(other)"  # the sum of what has no series of its own; no topic has such a name


class Bounded:
    """Counts by the values of labels; above a number of them, further values count as one."""

    __slots__ = ("_max", "counts")

    def __init__(self, values_max: int = LABEL_VALUES_MAX) -> None:
        """Begin without counts."""
        self.counts: Counter[tuple[str, ...]] = Counter()
        self._max = values_max

    def add(self, *labels: str, count: int = 1) -> None:
        """Count for values of the labels; the last one is replaced if there are too many."""
        if labels not in self.counts and len(self.counts) >= self._max:
            labels = (*labels[:-1], OTHER)
        self.counts[labels] += count


class Counters:
    """The counters of one broker."""

    __slots__ = (
        "accepted",
        "authentications",
        "closed",
        "errors",
        "failed_fetches",
        "failed_produces",
        "login_failures",
        "refused",
        "rejected_bytes",
        "throttled_ms",
        "throttles",
    )

    def __init__(self) -> None:
        """Begin at 0."""
        self.accepted = Bounded()  # by listener
        self.closed = Bounded()  # by listener and reason
        self.refused = Bounded()  # by reason
        self.authentications = Bounded()  # by mechanism
        self.login_failures = Bounded()  # by mechanism and reason
        self.errors = Bounded(32 * LABEL_VALUES_MAX)  # by API and error
        self.failed_produces = Bounded(TOPIC_SERIES_MAX)  # by topic
        self.failed_fetches = Bounded(TOPIC_SERIES_MAX)
        self.rejected_bytes = Bounded(TOPIC_SERIES_MAX)
        self.throttles = 0
        self.throttled_ms = 0

    def produce_refused(self, topic: str, error: str, size: int) -> None:
        """Count a batch that was refused."""
        self.failed_produces.add(topic)
        self.rejected_bytes.add(topic, count=size)
        self.errors.add("Produce", error)

    def fetch_refused(self, topic: str, error: str) -> None:
        """Count a partition that could not be read."""
        self.failed_fetches.add(topic)
        self.errors.add("Fetch", error)

    def throttled(self, rest_ms: int) -> None:
        """Count an answer that makes its client rest."""
        self.throttles += 1
        self.throttled_ms += rest_ms
