"""What topics need of others: the logs of partitions, and the table of the native path."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from broker.model.topic_config import TopicConfig


class TopicTable(Protocol):
    """The native table in which the native path looks up partitions."""

    def add(self, name: str, topic_id: bytes, logs: list[Any]) -> None:
        """Register a topic's logs, as `PartitionLogs` returns them, or replace them with more."""

    def remove(self, name: str) -> None:
        """Remove a topic."""


class Leadership(Protocol):
    """Which partitions this broker leads."""

    def epoch(self, topic_id: bytes, partition: int, /) -> int | None:
        """Return the leader epoch of this broker's election; None if it does not lead.

        ANY_EPOCH: the log's own.
        """


ANY_EPOCH = -1


class LeadsAll:
    """A standalone broker leads every partition."""

    def epoch(self, _topic_id: bytes, _partition: int, /) -> int | None:
        """Return ANY_EPOCH."""
        return ANY_EPOCH


class PartitionLogs(Protocol):
    """The logs of all partitions, as files; server/partition_logs.py implements it."""

    def claim(self, topic: str, topic_id: bytes, numbers: Iterable[int], /) -> list[int]:
        """Return those partitions, led here, whose logs may be opened: no other process has them.

        The others are claimed again later.
        """

    async def open_topic(
        self, topic: str, topic_id: bytes, numbers: Iterable[int], config: TopicConfig, /
    ) -> list[Any]:
        """Open logs of a topic.

        Raises StorageError: then none of them is left.
        """

    def announce_topic(
        self, topic: str, topic_id: bytes, numbers: Iterable[int], config: TopicConfig, /
    ) -> list[Any]:
        """Return logs of an existing topic, which are still to be loaded."""

    def load(self, logs: Iterable[Any], /) -> None:
        """Load announced logs in threads; `prepare` of topics is called with each one then."""

    async def release(self, log: Any, /) -> None:  # noqa: ANN401 (a log)
        """Serve a log no more: finish the writes that it has accepted, and close its files."""

    async def until_loaded(self, logs: Sequence[Any], /) -> None:
        """Wait until none of these logs is being loaded."""

    def configure(self, log: Any, config: TopicConfig, /) -> None:  # noqa: ANN401 (a log)
        """Apply its topic's configuration to a log, from the next append on."""

    def delete(self, log: Any, /) -> None:  # noqa: ANN401 (a log)
        """Close the log of a deleted topic."""

    def forget(self, topic: str, numbers: Iterable[int], /) -> None:
        """Forget what is known of partitions of a deleted topic that have no open log."""

    async def free_deleted(self, topic: str, numbers: Iterable[int], /) -> None:
        """Let other processes have the folders of deleted logs, which were renamed."""

    @property
    def is_read_only(self) -> bool:
        """Whether the disk has only space for deletes."""

    @property
    def change_count(self) -> int:
        """How often a log has begun or ended loading, gone offline or begun a leader epoch."""
