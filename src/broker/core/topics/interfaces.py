"""What topics need of others: the logs of partitions, and the table of the native path."""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from broker.core.topics.roles import ANY_EPOCH, Role
from broker.model.topic_config import TopicConfig


class TopicTable(Protocol):
    """The native table in which the native path looks up partitions."""

    def add(
        self, name: str, topic_id: bytes, logs: list[Any], followed: dict[int, Any] | None = None
    ) -> None:
        """Register a topic's logs, as `PartitionLogs` returns them, or replace them with more."""

    def remove(self, name: str) -> None:
        """Remove a topic."""


class Leadership(Protocol):
    """What this broker is for partitions."""

    def role(self, topic_id: bytes, partition: int, /) -> Role | None:
        """Return its role; None: it has nothing open of the partition."""

    def keeps(self, topic_id: bytes, partition: int, /) -> bool:
        """Return whether it keeps the files of a partition that it has not open."""


_ALONE = Role(leads=True, epoch=ANY_EPOCH)


class LeadsAll:
    """A standalone broker leads every partition."""

    def role(self, _topic_id: bytes, _partition: int, /) -> Role | None:
        """Return that it leads, in the epoch of the log."""
        return _ALONE

    def keeps(self, _topic_id: bytes, _partition: int, /) -> bool:
        """Return that it does."""
        return True


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

    async def stop_accepting(self, log: Any, /) -> None:  # noqa: ANN401 (a log)
        """Accept no batch any more, and wait until other replicas have what was accepted.

        Not for longer than a limit.
        """

    async def leave(self, log: Any, /) -> None:  # noqa: ANN401 (a log)
        """End what works on the files of a log that does not lead any more."""

    async def remove_moved(self, topic: str, topic_id: bytes, number: int, /) -> None:
        """Remove the folder of a log that was released: other brokers have all replicas now."""

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
