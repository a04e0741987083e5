"""Producer ids, assigned from blocks that are durably reserved before use.

An id identifies a producer's sequences in every log that it has written to, so no id may be
assigned twice: the store has the end of a block before the first id of it is used. What a broker
has not used of its block when it ends is lost (there are 2^63 ids).
"""

import asyncio
import json

from broker.core.metadata import Metadata
from broker.model.errors import StorageError
from broker.model.limits import PRODUCER_ID_BLOCK
from broker.storage import metadata

_LAST_ID = (1 << 63) - 1


class ProducerIds:
    """Assigns ids that were never used; one store write per thousand."""

    def __init__(self, known: Metadata) -> None:
        """Reserve nothing yet: a broker without idempotent producers writes nothing."""
        self._metadata = known
        self._reserving = asyncio.Lock()
        self._next_id = 0
        self._block_end = 0

    async def next_id(self) -> int:
        """Return a new producer id; StorageError when no block can be reserved."""
        async with self._reserving:
            if self._next_id == self._block_end:
                self._next_id, self._block_end = await self._reserve()
            producer_id = self._next_id
            self._next_id += 1
            return producer_id

    async def _reserve(self) -> tuple[int, int]:
        """Reserve the next block; another broker of the cluster may reserve one meanwhile."""
        while True:
            current = await self._metadata.get(metadata.PRODUCER_ID_BLOCK)
            start, guard, put = reservation(current, PRODUCER_ID_BLOCK)
            if await self._metadata.transact([guard], [put]) is not None:
                return start, start + PRODUCER_ID_BLOCK


def reservation(
    current: metadata.KeyValue | None, count: int
) -> tuple[int, metadata.Guard, metadata.Put]:
    """Return the first of so many ids, and the guard and the operation that reserve them.

    `current` is the key PRODUCER_ID_BLOCK of the store. Raises StorageError.
    """
    key = metadata.PRODUCER_ID_BLOCK
    start = _parse(current.value) if current else 0
    guard = metadata.Unchanged(key, current.mod_revision) if current else metadata.Absent(key)
    value = json.dumps({"version": 1, "next_producer_id": start + count}).encode()
    return start, guard, metadata.Put(key, value)


def _parse(value: bytes) -> int:
    """Read the first free id; a damaged value is an error, a guess could assign ids twice."""
    try:
        match json.loads(value):
            case {"version": 1, "next_producer_id": int(start)} if 0 <= start < _LAST_ID:
                return start
    except ValueError:
        pass  # the same message as for a wrong shape
    raise StorageError(f"the metadata store holds a damaged pid_block: {value!r}")
