"""The metadata as a broker knows it: an image of the store, and the changes that it makes itself.

    transact ──> store ──> image ──> whoever made the change continues

The image is what handlers read; a change is in it when `transact` returns. The guards of a change
are taken from the image, so that one that was made elsewhere meanwhile is never overwritten.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from broker.core.cluster.image import ClusterImage
from broker.core.cluster.slices import complete
from broker.core.scheduling.io_thread import IoThread
from broker.core.scheduling.steps import complete_in_steps
from broker.core.scheduling.tasks import Tasks
from broker.model.errors import StorageError, disk_refusal
from broker.storage.metadata import Changes, Event, Guard, KeyValue, Operation, Put
from broker.storage.metadata.blocking import BlockingMetaStore


class Metadata(Protocol):
    """The metadata of a broker, alone or in a cluster."""

    @property
    def image(self) -> ClusterImage:
        """What is known now; it is never replaced."""

    async def get(self, key: bytes) -> KeyValue | None:
        """Return a key that the image does not keep; StorageError when that fails."""

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        """Change the store; return the new revision once the image has it, None if a guard fails.

        Raises:
            StorageError: nothing was changed.
        """


async def change(
    known: Metadata, guards: Sequence[Guard], operations: Sequence[Operation]
) -> int | None:
    """Transact for a request; raises RequestError when the store fails."""
    try:
        return await known.transact(guards, operations)
    except StorageError as error:
        raise disk_refusal(error) from error


class OwnMetadata:
    """The metadata of a standalone broker: nobody else changes the store."""

    __slots__ = ("_changing", "_io_thread", "_store", "_tasks", "image")

    def __init__(self, store: BlockingMetaStore, io_thread: IoThread) -> None:
        """Read the whole store; StorageError when it has a damaged value."""
        self._store = store
        self._io_thread = io_thread
        self._tasks = Tasks()
        self._changing = asyncio.Lock()  # the image gets the changes in their order
        self.image = ClusterImage()
        complete(self.image.load(*store.scan(b"")))

    async def get(self, key: bytes) -> KeyValue | None:
        """Return a key of the store."""
        return await self._io_thread.run(partial(self._store.get, key))

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        """Change the store and then the image, even if the connection that asks ends meanwhile.

        Otherwise what was deleted, as a user or a permission, would be in force until a restart.
        """
        return await self._tasks.run_to_completion(self._transact(guards, operations))

    async def _transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        async with self._changing:
            transact = partial(self._store.transact, guards, operations)
            revision = await self._io_thread.run(transact)
            if revision is not None:
                events = [_event(each, revision) for each in operations]
                await complete_in_steps(self.image.apply(Changes(revision, events)))
            return revision


def _event(operation: Operation, revision: int) -> Event:
    """Return the event of an operation; the image needs the creation of leased keys only."""
    if isinstance(operation, Put):
        entry = KeyValue(operation.key, operation.value, revision, revision)
        return Event(operation.key, entry, revision)
    return Event(operation.key, None, revision)
