"""What deleted topics leave on the disk, until it is gone.

    commit: the topic does not exist, `deleted/<id>` does ── renames ── a sync of the data directory
      ── file.delete.delay.ms ── files removed, some at a time ── commit: `deleted/<id>` is gone

A start finishes what it finds recorded: the renames at once, since a topic of the same name may
come with the first request; the files beside everything else, without the delay.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

from broker.core import topic_records
from broker.core.io_thread import IoThread
from broker.core.topic_records import DeletedTopic
from broker.model.errors import StorageError
from broker.model.limits import DELETED_TOPICS_WAITING_MAX, FOLDERS_RENAMED_PER_STEP
from broker.storage import metadata

_log = logging.getLogger(__name__)


class Folders(Protocol):
    """What is done with the folders of deleted topics (`storage.deletion`)."""

    def put_away(
        self, topic: str, topic_id: bytes, partitions: Iterable[int], *, is_name_taken: bool
    ) -> None:
        """Give folders a name that no partition has."""

    def sync(self) -> None:
        """Make that durable."""

    def waiting(self, topic: str, topic_id: bytes, partitions: Iterable[int]) -> list[Path]:
        """Where they are now."""

    def remove_some(self, folders: deque[Path]) -> None:
        """Remove a bounded number of files, and take the folders that are gone off the list."""


class _Removal(NamedTuple):
    """Folders to be removed, and the topic whose last they are."""

    due: float  # by the loop's clock
    folders: deque[Path]
    topic: DeletedTopic | None


class Deletions:
    """The deleted topics of one broker whose folders are still there."""

    def __init__(self, store: metadata.MetaStore, io_thread: IoThread, folders: Folders) -> None:
        """Nothing is deleted yet."""
        self._store = store
        self._io_thread = io_thread
        self._folders = folders
        self._removals: list[_Removal] = []
        self._removing: asyncio.Task[None] | None = None
        self._more = asyncio.Event()
        self._is_urgent = False

    def set_urgent(self, *, is_urgent: bool) -> None:
        """While the disk is short of room, wait for no delay: readers keep what they have open."""
        self._is_urgent = is_urgent
        if is_urgent:
            self._removals = [removal._replace(due=0) for removal in self._removals]
            self._more.set()

    def resume(self, is_name_taken: Callable[[str], bool]) -> None:
        """At a start: finish the renames of what is recorded; `remove` finishes the rest."""
        recorded = topic_records.read_deleted(self._store)
        for topic in recorded:
            self._folders.put_away(
                topic.name,
                topic.topic_id,
                range(topic.partitions),
                is_name_taken=is_name_taken(topic.name),
            )
        if recorded:
            self._folders.sync()
        for topic in recorded:
            self._schedule(topic, self._waiting(topic), 0)

    def remove(self, folders: Iterable[Path]) -> None:
        """Remove folders that no record tells of."""
        removal = _Removal(0, deque(folders), None)
        if removal.folders:
            self._add(removal)

    async def put_away(self, topic: DeletedTopic, delay_ms: int) -> None:
        """Rename the folders of a topic whose delete is committed; they are removed later.

        When this fails the next start finishes it: the topic is deleted in any case.
        """
        everything = range(topic.partitions)
        try:
            for first in range(0, topic.partitions, FOLDERS_RENAMED_PER_STEP):
                some = everything[first : first + FOLDERS_RENAMED_PER_STEP]
                await self._io_thread.run(partial(self._rename, topic, some))
            await self._io_thread.run(self._folders.sync)
            folders = await self._io_thread.run(partial(self._waiting, topic))
        except StorageError as error:
            _log.warning("folders of a deleted topic stay: topic=%s error=%s", topic.name, error)
        else:
            self._schedule(topic, folders, delay_ms)

    def _rename(self, topic: DeletedTopic, partitions: range) -> None:
        self._folders.put_away(topic.name, topic.topic_id, partitions, is_name_taken=False)

    def _waiting(self, topic: DeletedTopic) -> deque[Path]:
        partitions = range(topic.partitions)
        return deque(self._folders.waiting(topic.name, topic.topic_id, partitions))

    def _schedule(self, topic: DeletedTopic, folders: deque[Path], delay_ms: int) -> None:
        delay_seconds = 0 if self._is_urgent else delay_ms / 1000
        due = asyncio.get_running_loop().time() + delay_seconds
        self._add(_Removal(due, folders, topic))

    def _add(self, removal: _Removal) -> None:
        self._removals.append(removal)
        self._removals.sort(key=lambda each: each.due)
        self._more.set()
        if self._removing is None or self._removing.done():
            self._removing = asyncio.get_running_loop().create_task(self._remove_all())

    def stop(self) -> None:
        """Leave what is left to the next start."""
        if self._removing is not None:
            self._removing.cancel()

    async def _remove_all(self) -> None:
        while self._removals:
            if not await self._is_due():
                continue
            removal = self._removals.pop(0)
            try:
                await self._remove(removal)
            except StorageError as error:
                _log.warning("folders of a deleted topic stay: error=%s", error)

    async def _is_due(self) -> bool:
        """Wait for the first that is due; False when an earlier one has come meanwhile."""
        if len(self._removals) > DELETED_TOPICS_WAITING_MAX:
            return True
        self._more.clear()
        delay = self._removals[0].due - asyncio.get_running_loop().time()
        if delay <= 0:
            return True
        try:
            await asyncio.wait_for(self._more.wait(), delay)
        except TimeoutError:
            return True
        return False

    async def _remove(self, removal: _Removal) -> None:
        while removal.folders:
            await self._io_thread.run(lambda: self._folders.remove_some(removal.folders))
        if removal.topic is not None:
            forgotten = topic_records.forgotten(removal.topic)
            await self._io_thread.run(lambda: self._store.transact([], [forgotten]))
