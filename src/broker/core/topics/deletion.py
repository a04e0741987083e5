"""Removal of the files of deleted topics.

    commit: the topic is gone, `deleted/<id>` exists ── renames ── a sync of the data directory
      ── file.delete.delay.ms ── files removed, some at a time ── commit: they are gone

The last commit removes `deleted/<id>`. In a cluster it removes this broker from that record's list
of brokers that may have folders, and the controller removes the record when the list is empty.

A start finishes what is recorded: the renames before anything else, since the first request may
create a topic of the same name; the files in the background, without the delay.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from broker.core.metadata import Metadata
from broker.core.scheduling.io_thread import IoThread
from broker.core.topics import records as topic_records
from broker.core.topics.placing import Placing
from broker.core.topics.records import DeletedTopic
from broker.model.errors import StorageError
from broker.model.limits import (
    DELETED_TOPICS_WAITING_MAX,
    DELETION_RETRY_SECONDS,
    FOLDERS_RENAMED_PER_STEP,
)
from broker.storage.files.deletion import DeletedFolders

_log = logging.getLogger(__name__)


class _Removal(NamedTuple):
    """Folders to be removed, and the topic whose record is removed with them."""

    due: float  # by the loop's clock
    folders: deque[Path]
    topic: DeletedTopic | None


class Deletions:
    """The deleted topics of a broker whose folders still exist."""

    def __init__(
        self, known: Metadata, io_thread: IoThread, folders: DeletedFolders, placing: Placing
    ) -> None:
        """Start with none."""
        self._metadata = known
        self._io_thread = io_thread
        self._folders = folders
        self._placing = placing
        self._begun: set[bytes] = set()  # ids of topics whose records may still exist
        self._removals: list[_Removal] = []
        self._removing: asyncio.Task[None] | None = None
        self._more = asyncio.Event()
        self._is_urgent = False

    def set_urgent(self, *, is_urgent: bool) -> None:
        """Skip the delay while disk space is short: readers keep the files that they have open."""
        self._is_urgent = is_urgent
        if is_urgent:
            self._removals = [removal._replace(due=0) for removal in self._removals]
            self._more.set()

    def resume(self, is_name_taken: Callable[[str], bool]) -> None:
        """Finish, at a start, the renames of recorded topics; their files are removed later."""
        recorded = [
            topic
            for topic in topic_records.read_deleted(self._metadata.image)
            if self._placing.removal(topic.topic_id) is not None
        ]
        for topic in recorded:
            self._begun.add(topic.topic_id)
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

    def put_away_moved(self, topic: str, topic_id: bytes, number: int) -> list[Path]:
        """Rename the folder of a partition whose replicas other brokers have; return its path.

        In the I/O thread. `remove` is next; a start removes what a crash has left.
        """
        return self._folders.put_away_moved(topic, topic_id, number)

    def remove(self, folders: Iterable[Path]) -> None:
        """Remove folders that no record refers to."""
        removal = _Removal(0, deque(folders), None)
        if removal.folders:
            self._add(removal)

    async def follow(self, topic_id: bytes, *, is_name_taken: bool) -> None:
        """Begin to remove the folders of a deleted topic, if this broker may have some.

        Called for records that another broker has made or changed; nothing has a log of the topic.
        """
        stored = self._metadata.image.deleted.get(topic_id)
        if stored is None:
            self._begun.discard(topic_id)
        elif topic_id not in self._begun and self._placing.removal(topic_id) is not None:
            topic = DeletedTopic(stored.topic.name, topic_id, stored.topic.partitions)
            await self.put_away(topic, 0, is_name_taken=is_name_taken)

    async def put_away(
        self, topic: DeletedTopic, delay_ms: int, *, is_name_taken: bool = False
    ) -> None:
        """Rename the folders of a topic whose deletion is committed; they are removed later.

        If this fails, the next start finishes it: the topic is deleted in any case. With
        `is_name_taken` another topic has the name.
        """
        self._begun.add(topic.topic_id)
        everything = range(topic.partitions)
        try:
            for first in range(0, topic.partitions, FOLDERS_RENAMED_PER_STEP):
                some = everything[first : first + FOLDERS_RENAMED_PER_STEP]
                await self._io_thread.run(
                    partial(
                        self._folders.put_away,
                        topic.name,
                        topic.topic_id,
                        some,
                        is_name_taken=is_name_taken,
                    )
                )
            await self._io_thread.run(self._folders.sync)
            folders = await self._io_thread.run(partial(self._waiting, topic))
        except StorageError as error:
            _log.warning("folders of a deleted topic stay: topic=%s error=%s", topic.name, error)
        else:
            self._schedule(topic, folders, delay_ms)

    def _waiting(self, topic: DeletedTopic) -> deque[Path]:
        partitions = range(topic.partitions)
        return deque(self._folders.waiting(topic.name, topic.topic_id, partitions))

    def _schedule(self, topic: DeletedTopic, folders: deque[Path], delay_ms: int) -> None:
        delay_seconds = 0 if self._is_urgent else delay_ms / 1000
        self._add(_Removal(_in(delay_seconds), folders, topic))

    def _add(self, removal: _Removal) -> None:
        self._removals.append(removal)
        self._removals.sort(key=lambda each: each.due)
        self._more.set()
        if self._removing is None or self._removing.done():
            self._removing = asyncio.get_running_loop().create_task(self._remove_all())

    def stop(self) -> None:
        """Leave the rest to the next start."""
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
            else:
                if removal.topic is not None and self._folders.is_complete:
                    await self._record(removal, removal.topic)

    async def _record(self, removal: _Removal, topic: DeletedTopic) -> None:
        """Record that the folders of a topic are gone; try again later if that fails."""
        transaction = self._placing.removal(topic.topic_id)
        if transaction is not None:
            try:
                if await self._metadata.transact(*transaction) is None:  # another broker was first
                    self._add(removal._replace(due=0))
                    return
            except StorageError as error:
                _log.warning(
                    "removed folders not recorded, tried again: topic=%s error=%s",
                    topic.name,
                    error,
                )
                self._add(removal._replace(due=_in(DELETION_RETRY_SECONDS)))
                return
        self._begun.discard(topic.topic_id)

    async def _is_due(self) -> bool:
        """Wait for the first removal that is due; False when an earlier one was added meanwhile."""
        if len(self._removals) > DELETED_TOPICS_WAITING_MAX and self._removals[0].folders:
            return True  # one without folders waits to be recorded again
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


def _in(seconds: float) -> float:
    return asyncio.get_running_loop().time() + seconds
