"""Sums over the logs of topics, which never fall: logs close, and topics are deleted."""

from collections.abc import Collection, Sequence


class Totals:
    """Counters of topics, from the sums of their logs at each look, and of all that ever were.

    Attributes:
        all: the amounts of all topics, with those that are deleted.
    """

    __slots__ = ("_topics", "all")

    def __init__(self, places: int) -> None:
        """Begin at 0, of so many amounts."""
        self.all = [0] * places
        self._topics: dict[str, tuple[Sequence[int], Sequence[int]]] = {}  # last look, shown

    def look(self, topic: str, amounts: Sequence[int]) -> Sequence[int]:
        """Return a topic's counters.

        An amount that is smaller than before counts for nothing: a log of the topic has gone, and
        what the others have was counted already.
        """
        none = [0] * len(self.all)
        before, shown = self._topics.get(topic, (none, none))
        grown = [max(now - last, 0) for now, last in zip(amounts, before, strict=True)]
        shown = [a + b for a, b in zip(shown, grown, strict=True)]
        self.all = [a + b for a, b in zip(self.all, grown, strict=True)]
        self._topics[topic] = amounts, shown
        return shown

    def keep(self, topics: Collection[str]) -> None:
        """Forget the topics that are not among these."""
        for gone in self._topics.keys() - set(topics):
            del self._topics[gone]

    def __len__(self) -> int:
        """Return how many topics are known."""
        return len(self._topics)
