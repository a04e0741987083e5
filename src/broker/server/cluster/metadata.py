"""The metadata of a broker in a cluster: an image that a watch of the store feeds.

    scan ──> image <── watch: every change of every broker, in the store's order
               │
               └── Delta ──> whoever reacts to it

A change of this broker takes the same way: `transact` returns when the watch has brought it. When
the store no longer knows all changes since the image's revision, everything is scanned again, and
what is different is reported like changes.

A store that was emptied, restored from a backup or replaced while this broker runs is not followed:
the topics that it lacks were not deleted by anybody, and what it has may have been replaced. The
image stays, and the broker has to stop.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import aclosing

from broker.core.cluster import records
from broker.core.cluster.image import ClusterImage, Delta
from broker.core.scheduling.steps import complete_in_steps
from broker.core.service import Service
from broker.model.errors import StorageError
from broker.model.limits import CLUSTER_RETRY_MS, METADATA_CALL_SECONDS
from broker.storage.metadata import (
    Compacted,
    Event,
    Guard,
    KeyValue,
    MetaStore,
    Operation,
    OutcomeUnknown,
    Put,
    StoreReplaced,
)

_log = logging.getLogger(__name__)
_LOAD_SECONDS_MAX = 30  # between two attempts to read a store with a value that is damaged or newer


class ClusterMetadata(Service):
    """The image of a cluster, and this broker's changes to it (core/metadata.py)."""

    name = "cluster metadata"
    is_essential = True

    def __init__(self, store: MetaStore) -> None:
        """Start with an empty image; `load` fills it."""
        self.image = ClusterImage()
        self.is_followed = True  # False from a failed watch to the next scan
        self._store = store
        self._callbacks: list[Callable[[Delta], None]] = []
        self._on_replaced: list[Callable[[StoreReplaced], None]] = []
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []  # revisions that are awaited

    def when_changed(self, callback: Callable[[Delta], None]) -> None:
        """Register a callback that gets what has changed, after each change of the image."""
        self._callbacks.append(callback)

    def when_replaced(self, callback: Callable[[StoreReplaced], None]) -> None:
        """Register a callback that gets why the store is followed no longer: `run` has ended."""
        self._on_replaced.append(callback)

    async def load(self) -> None:
        """Read the whole store; StorageError when that fails or a value is damaged."""
        entries, revision = await self._store.scan(b"")
        if self.image.cluster_id is not None:
            self._check_cluster(next((e for e in entries if e.key == records.CLUSTER), None))
        self._changed(await complete_in_steps(self.image.load(entries, revision)))
        await complete_in_steps(self.image.release())

    async def found(self, guard: Guard, operation: Operation) -> None:
        """Make the first key of a new cluster, unless another broker has, and read it back."""
        await self._store.transact([guard], [operation])
        await self.load()

    async def run(self) -> None:
        """Follow the store until cancelled, or until it is replaced."""
        try:
            await self._follow()
        except StoreReplaced as error:
            refusal = StoreReplaced(
                f"the metadata store has lost what this broker knows of its cluster ({error}):"
                " nothing of that is followed. Stop all brokers, restore the newest backup of the"
                " store, run `broker metadata bump-epochs`, and start them"
            )
            for callback in self._on_replaced:
                callback(refusal)

    async def _follow(self) -> None:
        while True:
            try:
                async with aclosing(self._store.watch(b"", self.image.revision + 1)) as watch:
                    async for changes in watch:
                        self._check_events(changes.events)
                        self._changed(await complete_in_steps(self.image.apply(changes)))
            except Compacted as error:
                _log.info("changes of the metadata were missed, all of it is read: %s", error)
                await self._load_again()
            except StoreReplaced:
                raise
            except StorageError as error:
                # The image may have half of a change: only a scan makes it whole.
                _log.error("the metadata cannot be followed: error=%s", error)
                self.is_followed = False
                await self._load_again()
                self.is_followed = True
                self._changed(await complete_in_steps(Delta.of_everything(self.image)))
            else:
                return  # the store was closed

    async def get(self, key: bytes) -> KeyValue | None:
        """Return a key of the store."""
        return await self._store.get(key)

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        """Change the store; return once the image has the change.

        After a guard that did not hold, it returns once the image has changed, if that is soon: the
        image was behind the store, or else another change of the same keys is on its way.

        Raises:
            StorageError: nothing was changed.
            OutcomeUnknown: that is not known, or the image does not follow the store now.
        """
        before = self.image.revision
        # A key that is never deleted tells whether a store has a change, whatever its revision is:
        # that of etcd also increases with the end of leases and with changes of other programs.
        changed = Put(records.CHANGED, records.changed_value())
        revision = await self._store.transact(guards, [*operations, changed])
        if revision is None:
            await self.reached(before + 1, CLUSTER_RETRY_MS / 1000)
        elif not await self.reached(revision, METADATA_CALL_SECONDS):
            raise OutcomeUnknown(f"revision {revision} is stored, and has not been seen yet")
        return revision

    async def reached(self, revision: int, seconds: float) -> bool:
        """Wait until the image has a revision; return whether it has."""
        if self.image.revision < revision:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((revision, reached))
            try:
                await asyncio.wait([reached], timeout=seconds)
            finally:
                self._waiting = [each for each in self._waiting if each[1] is not reached]
        return self.image.revision >= revision

    async def _load_again(self) -> None:
        seconds = CLUSTER_RETRY_MS / 1000
        while True:
            await asyncio.sleep(seconds)
            seconds = min(2 * seconds, _LOAD_SECONDS_MAX)
            try:
                await self.load()
            except StoreReplaced:
                raise
            except StorageError as error:
                _log.warning("the metadata cannot be read: error=%s", error)
            else:
                return

    def _check_events(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.key == records.CLUSTER and self.image.cluster_id is not None:
                self._check_cluster(event.entry)

    def _check_cluster(self, entry: KeyValue | None) -> None:
        """Raise StoreReplaced unless the cluster's key is what it was when this broker joined."""
        if entry is None:
            raise StoreReplaced("the key of the cluster is gone")
        found = records.parse_cluster(entry)
        if found != self.image.cluster_id:
            raise StoreReplaced(f"it is of cluster {found}, and was of {self.image.cluster_id}")

    def _changed(self, delta: Delta) -> None:
        for revision, reached in self._waiting:
            if revision <= self.image.revision and not reached.done():
                reached.set_result(None)
        for callback in self._callbacks:
            callback(delta)
