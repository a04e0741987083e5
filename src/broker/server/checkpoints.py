"""The order in which checkpoints of logs are made durable.

    named producers  →  recovery points     compaction stops at these
                     →  log start offsets   segments below are deleted

The producers' tables come first: they are made from records, which must still exist then. A table
that is made for the first time may have a whole log to read; only checkpoints wait for that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from broker.core.named_producers.tables import NamedProducers
from broker.core.scheduling.io_thread import IoThread
from broker.core.topics.topic import Topic
from broker.core.topics.topics import Topics
from broker.model import limits
from broker.model.errors import StorageError
from broker.storage.recovery.partitions import Partitions

_log = logging.getLogger(__name__)


class Checkpoints:
    """Writes checkpoints periodically, and on request."""

    def __init__(
        self,
        partitions: Partitions,
        topics: Topics,
        named_producers: NamedProducers,
        io_thread: IoThread,
        on_disk: Callable[[Callable[[], None]], Awaitable[bool]],
    ) -> None:
        """Keep what it needs; `on_disk` runs work in the I/O thread: whether it succeeded."""
        self._partitions = partitions
        self._topics = topics
        self._named_producers = named_producers
        self._io_thread = io_thread
        self._on_disk = on_disk
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Write a checkpoint periodically; runs until cancelled."""
        while True:
            await asyncio.sleep(limits.CHECKPOINT_SECONDS)
            await self.write()

    async def write(self) -> bool:
        """Write the recovery points of all logs; return whether that succeeded.

        One at a time, so that a recovery point never goes back.
        """
        async with self._writing:
            points = self._partitions.plan_checkpoint()
            if not await self._is_covered(self._with_named_producers()):
                return False
            failed: dict[Any, str] = {}
            if not await self._on_disk(
                lambda: failed.update(self._partitions.prepare_checkpoint())
            ):
                return False
            for log, reason in failed.items():
                log.take_offline(reason)
            return await self._on_disk(partial(self._partitions.write_checkpoint, points))

    async def persist_log_starts(self, planned: Sequence[tuple[Any, int]]) -> None:
        """Make new log start offsets durable; raises StorageError."""
        await self._named_producers.cover(self._losing(planned))
        self._partitions.note_log_starts(planned)
        await self._io_thread.run(self._partitions.write_log_starts)

    async def save_log_starts(self, planned: Sequence[tuple[Any, int]]) -> bool:
        """Do the same, and return whether it succeeded."""
        if not await self._is_covered(self._losing(planned)):
            return False
        self._partitions.note_log_starts(planned)
        return await self._on_disk(self._partitions.write_log_starts)

    async def _is_covered(self, places: Iterable[tuple[Topic, Any]]) -> bool:
        try:
            await self._named_producers.cover(places)
        except StorageError as error:
            _log.warning("named producers not written: error=%s", error)
            return False
        return True

    def _losing(self, planned: Sequence[tuple[Any, int]]) -> list[tuple[Topic, Any]]:
        """Return the logs that will lose records and have named producers."""
        losing = {log for log, start in planned if start > log.log_start_offset}
        return [(topic, log) for topic, log in self._with_named_producers() if log in losing]

    def _with_named_producers(self) -> list[tuple[Topic, Any]]:
        return [
            (topic, log)
            for topic in self._topics
            if topic.config.flag("polylog.cursus.idempotent")
            for log in topic.logs
        ]
