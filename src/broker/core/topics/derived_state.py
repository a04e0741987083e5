"""State that is made from the records of logs, and kept in files of its own."""

from collections.abc import Iterable
from typing import Any, Protocol

from broker.core.topics.topic import Topic


class DerivedState(Protocol):
    """State of partitions that a start reads again from its file and the records after it.

    Before records are removed from a log, by retention or compaction, its file must cover them.
    """

    @property
    def name(self) -> str:
        """What it is, in log lines."""

    def is_kept_for(self, topic: Topic) -> bool:
        """Whether the topic's partitions have it."""

    async def cover(self, places: Iterable[tuple[Topic, Any]]) -> None:
        """Make the files of these logs cover all of their records; raises StorageError."""
