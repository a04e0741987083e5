"""What is made durable about logs beside their records, and in which order.

    named producers  →  recovery points     compaction goes as far as these
                     →  log start offsets   what is below is deleted

The producers' tables go first: who wrote a record is known from it as long as it is there. A table
that is made for the first time may have a whole log to read, so nobody but this waits for it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any

from broker.core.io_thread import IoThread
from broker.core.named_producers.tables import NamedProducers
from broker.core.topic import Topic
from broker.core.topics import Topics
from broker.model import limits
from broker.model.errors import StorageError
from broker.storage.recovery import Partitions

_log = logging.getLogger(__name__)


class Checkpoints:
    """Writes them from time to time, and whenever somebody needs one."""

    def __init__(
        self,
        partitions: Partitions,
        topics: Topics,
        named_producers: NamedProducers,
        io_thread: IoThread,
        on_disk: Callable[[Callable[[], None]], Awaitable[bool]],
    ) -> None:
        """Take part in a broker; `on_disk` does work in the I/O thread: whether it was done."""
        self._partitions = partitions
        self._topics = topics
        self._named_producers = named_producers
        self._io_thread = io_thread
        self._on_disk = on_disk
        self._writing = asyncio.Lock()

    async def run(self) -> None:
        """Write one again and again, as long as the broker runs."""
        while True:
            await asyncio.sleep(limits.CHECKPOINT_SECONDS)
            await self.write()

    async def write(self) -> bool:
        """Write up to where logs are synced; whether it was done.

        One after the other: a recovery point never goes back.
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
        """Make it durable where logs are to begin; StorageError when that fails."""
        await self._named_producers.cover(self._losing(planned))
        self._partitions.note_log_starts(planned)
        await self._io_thread.run(self._partitions.write_log_starts)

    async def save_log_starts(self, planned: Sequence[tuple[Any, int]]) -> bool:
        """Do the same; whether it was done."""
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
        """Those that are about to lose records, with producers that shall stay known."""
        losing = {log for log, start in planned if start > log.log_start_offset}
        return [(topic, log) for topic, log in self._with_named_producers() if log in losing]

    def _with_named_producers(self) -> list[tuple[Topic, Any]]:
        return [
            (topic, log)
            for topic in self._topics
            if topic.config.flag("polylog.cursus.idempotent")
            for log in topic.logs
        ]
