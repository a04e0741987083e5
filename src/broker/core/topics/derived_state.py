"""State that is made from the records of logs, and kept in files of its own."""

from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

from broker.core.logs.log import Log
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


class MovingState(Protocol):
    """State in a file beside each log, which is served while its log moves to another folder."""

    def is_kept_for(self, topic: Topic) -> bool:
        """Whether the topic's partitions have it."""

    async def copy(
        self, topic: Topic, log: Log, folder: Path, is_wanted: Callable[[], bool]
    ) -> None:
        """Make its file in the folder of the log's copy, all but its end; raises StorageError.

        Returns early once it is not wanted any more.
        """

    def moving(self, topic: Topic, log: Log, folder: Path) -> AbstractAsyncContextManager[None]:
        """Within it the log may begin to use its copy in that folder; the file there is whole.

        Raises StorageError.
        """
