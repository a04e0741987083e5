"""A metadata store in memory as brokers of a cluster call it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from broker.storage.metadata import Changes, Guard, KeyValue, Operation
from tests.support.memory_store import MemoryStore


class MemoryLease:
    """A lease that lasts until it is revoked."""

    is_held = True
    valid_until = float("inf")

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.id = store.grant()
        self.lost = asyncio.Event()

    async def revoke(self) -> None:
        self._store.expire(self.id)
        self.lost.set()

    async def abandon(self) -> None:
        self.lost.set()

    def when_renewed(self, _callback: Callable[[], None]) -> None:
        """It is never renewed."""


class AsyncMemoryStore:
    """MetaStore over a MemoryStore; its watches yield what there is, and end."""

    def __init__(self) -> None:
        self.memory = MemoryStore()

    async def get(self, key: bytes) -> KeyValue | None:
        return self.memory.get(key)

    async def scan(self, prefix: bytes) -> tuple[list[KeyValue], int]:
        entries, revision = self.memory.scan()
        return [each for each in entries if each.key.startswith(prefix)], revision

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        return self.memory.transact(guards, operations)

    async def watch(self, _prefix: bytes, from_revision: int) -> AsyncGenerator[Changes, None]:
        for changes in self.memory.changes(from_revision - 1):
            yield changes

    async def lease(self, _seconds: int) -> MemoryLease:
        return MemoryLease(self.memory)

    async def close(self) -> None:
        pass
