"""The order in which checkpoints of logs are made durable.

    derived state  →  recovery points     compaction stops at these
                   →  log start offsets   segments below are deleted

The files of derived state come first: they are made from records, which must still exist then. A
file that is made for the first time may have a whole log to read; only checkpoints wait for that.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from functools import partial
from typing import Any

from broker.core.scheduling.io_thread import IoThread
from broker.core.topics.derived_state import DerivedState
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
        io_thread: IoThread,
        on_disk: Callable[[Callable[[], None]], Awaitable[bool]],
    ) -> None:
        """Keep what it needs; `on_disk` runs work in the I/O thread: whether it succeeded."""
        self._partitions = partitions
        self._topics = topics
        self._derived: list[DerivedState] = []
        self._io_thread = io_thread
        self._on_disk = on_disk
        self._writing = asyncio.Lock()

    def cover_first(self, states: Iterable[DerivedState]) -> None:
        """Cover these states before each checkpoint of the logs that have them."""
        self._derived.extend(states)

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
            if not await self._is_covered(None):
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
        losing = _losing(planned)
        for state in self._derived:
            await state.cover(self._places(state, losing))
        self._partitions.note_log_starts(planned)
        await self._io_thread.run(self._partitions.write_log_starts)

    async def save_log_starts(self, planned: Sequence[tuple[Any, int]]) -> bool:
        """Do the same, and return whether it succeeded."""
        if not await self._is_covered(_losing(planned)):
            return False
        self._partitions.note_log_starts(planned)
        return await self._on_disk(self._partitions.write_log_starts)

    async def _is_covered(self, logs: Container[Any] | None) -> bool:
        """Cover the derived state of these logs, of all if None; return whether that succeeded."""
        for state in self._derived:
            try:
                await state.cover(self._places(state, logs))
            except StorageError as error:
                _log.warning("derived state not written: of=%s error=%s", state.name, error)
                return False
        return True

    def _places(self, state: DerivedState, logs: Container[Any] | None) -> list[tuple[Topic, Any]]:
        """Return those of the logs that have a state, with their topics."""
        return [
            (topic, log)
            for topic in self._topics
            if state.is_kept_for(topic)
            for log in topic.held_logs
            if logs is None or log in logs
        ]


def _losing(planned: Sequence[tuple[Any, int]]) -> set[Any]:
    """Return the logs that will lose records."""
    return {log for log, start in planned if start > log.log_start_offset}
