"""The metadata store of one process without an event loop: starts, recovery, the I/O thread."""

from collections.abc import Sequence
from typing import Protocol

from broker.storage.metadata import Guard, KeyValue, Operation


class BlockingMetaStore(Protocol):
    """A metadata store whose calls are durable on return.

    They may come from any thread and run one at a time: from the loop at start and stop, from the
    I/O thread in between, and from a thread that recovers logs when it needs a new leader epoch.
    StorageError means that the disk failed and nothing was changed.
    """

    def get(self, key: bytes) -> KeyValue | None:
        """Return the key, or None."""

    def scan(self, prefix: bytes) -> tuple[list[KeyValue], int]:
        """Return all keys that begin with prefix, in order, and the revision of the read."""

    def transact(self, guards: Sequence[Guard], operations: Sequence[Operation]) -> int | None:
        """Apply the operations if every guard holds; return the new revision, or None."""

    def close(self) -> None:
        """Release the store; it cannot be used afterwards."""
