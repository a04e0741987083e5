"""MetaStore over the SQLite file: the calls run in a thread, watches and leases on the event loop.

Watches read the history of the file (history.py) when they are woken: by a commit in this process,
by a datagram of another one (wakeups.py), or every METADATA_LOOK_SECONDS if the file has changed.
There is no queue between a commit and a watch, so a slow reader costs nothing; one that is too slow
gets Compacted.

A store with a watch or a lease also looks, as often, for leases that are over, and ends them.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar

from broker.model.clock import monotonic, monotonic_ns
from broker.model.errors import StorageError
from broker.model.identifiers import random_id
from broker.model.limits import METADATA_CALL_SECONDS
from broker.storage.metadata import (
    Changes,
    Guard,
    KeyValue,
    Operation,
    OutcomeUnknown,
    Unavailable,
    check_operations,
    store_limits,
)
from broker.storage.metadata.renewed_lease import RenewedLease
from broker.storage.metadata.sqlite.database import SqliteMetaStore
from broker.storage.metadata.sqlite.process_locks import LEASE_IDS
from broker.storage.metadata.sqlite.shared import SharedSqliteMetaStore

_T = TypeVar("_T")
_SECOND_NS = 1_000_000_000
_log = logging.getLogger(__name__)


class Thread(Protocol):
    """Where blocking calls run, one at a time (core/scheduling/io_thread.py)."""

    def run(self, work: Callable[[], _T]) -> Awaitable[_T]:
        """Return the result of a call in the thread, or raise its exception."""


class AsyncSqliteMetaStore:
    """A MetaStore in one file of this host."""

    def __init__(self, database: SqliteMetaStore, thread: Thread) -> None:
        """Use an open file, which `close` closes, and a thread, which it does not end."""
        self._database = database
        self._thread = thread
        self._loop: asyncio.AbstractEventLoop | None = None
        self._looking: asyncio.Task[None] | None = None
        self._waiting: set[asyncio.Event] = set()  # of watches
        self._leases: list[RenewedLease] = []
        self._is_closed = False
        database.follow(self._changed_in_thread)

    async def get(self, key: bytes) -> KeyValue | None:
        """Return the key, or None."""
        return await self._call(partial(self._database.get, key))

    async def scan(self, prefix: bytes) -> tuple[list[KeyValue], int]:
        """Return all keys that begin with prefix, in order, and the revision of the read."""
        return await self._call(partial(self._database.scan, prefix))

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        """Apply the operations if every guard holds; return the new revision, or None.

        Raises:
            OutcomeUnknown: the disk has not answered in time; the change may be applied yet.
            ValueError: check_operations refuses the operations.
        """
        check_operations(operations)
        work = partial(self._database.transact, guards, operations)
        return await self._call(work, on_timeout=OutcomeUnknown)

    async def watch(self, prefix: bytes, from_revision: int) -> AsyncGenerator[Changes, None]:
        """Yield all changes of keys that begin with prefix, from a revision on, in order.

        Raises:
            Compacted: changes from that revision on are no longer all known; scan again.
        """
        self._begin()
        revision = from_revision
        woken = asyncio.Event()
        self._waiting.add(woken)
        try:
            while not self._is_closed:
                woken.clear()
                read = partial(self._database.changes, prefix, revision)
                try:
                    events, revision, is_all = await self._call(read)
                except StorageError as error:  # it waits, as for an etcd that does not answer
                    _log.warning("watch delayed: error=%s", error)
                    await asyncio.sleep(store_limits.METADATA_LOOK_SECONDS)
                    continue
                if events:
                    yield Changes(events[-1].revision, events)
                if is_all and not self._is_closed:
                    await woken.wait()
        finally:
            self._waiting.discard(woken)

    async def lease(self, seconds: int) -> RenewedLease:
        """Return a new lease, which is renewed until it is revoked or lost."""
        self._begin()
        lease_id = int.from_bytes(random_id()[:8], "big") % LEASE_IDS or 1
        begun = monotonic()
        deadline = monotonic_ns() + seconds * _SECOND_NS
        grant = partial(self._database.grant, lease_id, deadline)
        await self._call(grant, on_timeout=OutcomeUnknown)

        async def renew(within: float) -> float:
            deadline = monotonic_ns() + seconds * _SECOND_NS
            work = partial(self._database.renew, lease_id, deadline)
            return seconds if await self._call(work, seconds=within) else 0

        async def end() -> None:
            revoke = partial(self._database.revoke, lease_id)
            await self._call(revoke, on_timeout=OutcomeUnknown)

        lease = RenewedLease(lease_id, seconds, begun + seconds, renew=renew, end=end)
        self._leases = [each for each in self._leases if not each.lost.is_set()]
        self._leases.append(lease)
        return lease

    async def close(self) -> None:
        """Stop renewing leases, which then expire, and close the file; watches end."""
        if self._is_closed:
            return
        self._is_closed = True
        self._database.when_changed = None
        for lease in self._leases:
            await lease.abandon()
        if self._looking is not None:
            self._looking.cancel()
            with suppress(asyncio.CancelledError):
                await self._looking
        if self._loop is not None and isinstance(self._database, SharedSqliteMetaStore):
            self._loop.remove_reader(self._database.fileno())
        self._wake()
        await self._call(self._database.close)

    async def _call(
        self,
        work: Callable[[], _T],
        *,
        seconds: float = METADATA_CALL_SECONDS,
        on_timeout: type[StorageError] = Unavailable,
    ) -> _T:
        try:
            async with asyncio.timeout(seconds):
                return await self._thread.run(work)
        except TimeoutError:
            raise on_timeout("the disk of the metadata store does not answer") from None

    def _begin(self) -> None:
        """Look at the file, and listen to other processes, from now on."""
        if self._looking is not None or self._is_closed:
            return
        self._loop = asyncio.get_running_loop()
        self._looking = self._loop.create_task(self._look())
        if isinstance(self._database, SharedSqliteMetaStore):
            self._loop.add_reader(self._database.fileno(), self._hear, self._database)

    async def _look(self) -> None:
        pause = store_limits.METADATA_LOOK_SECONDS
        while True:
            await asyncio.sleep(pause)
            try:
                has_changed = await self._call(self._database.look)
            except (StorageError, OSError) as error:  # OSError: of a lock
                _log.warning("cannot look for leases that are over: error=%s", error)
                pause = min(2 * pause, METADATA_CALL_SECONDS)
                continue
            pause = store_limits.METADATA_LOOK_SECONDS
            if has_changed:
                self._wake()

    def _hear(self, database: SharedSqliteMetaStore) -> None:
        database.drain()
        self._wake()

    def _changed_in_thread(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        for woken in self._waiting:
            woken.set()
