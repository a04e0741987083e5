"""A metadata store in memory: revisions, guards, leases, and the changes since the beginning."""

from collections.abc import Sequence

from broker.storage.metadata import (
    Absent,
    Changes,
    CreatedAt,
    Delete,
    Event,
    Guard,
    KeyValue,
    Operation,
    Put,
    Unchanged,
)


class MemoryStore:
    """What every store does, at once and without failures.

    Attributes:
        history: one element for each revision, from 1 on.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.entries: dict[bytes, KeyValue] = {}
        self.history: list[Changes] = []
        self.leases: dict[int, set[bytes]] = {}

    def get(self, key: bytes) -> KeyValue | None:
        return self.entries.get(key)

    def scan(self) -> tuple[list[KeyValue], int]:
        """Return everything in order of the keys, as a scan of the empty prefix."""
        return [self.entries[key] for key in sorted(self.entries)], self.revision

    def transact(self, guards: Sequence[Guard], operations: Sequence[Operation]) -> int | None:
        if not all(self._holds(each) for each in guards):
            return None
        assert len({each.key for each in operations}) == len(operations), "a key changed twice"
        changing = [
            each for each in operations if isinstance(each, Put) or each.key in self.entries
        ]
        if changing:
            self.revision += 1
            events = [self._change(each) for each in changing]
            self.history.append(Changes(self.revision, events))
        return self.revision

    def changes(self, after: int) -> list[Changes]:
        """Return what a watch yields after a revision."""
        return self.history[after:]

    # ---- leases
    # ---------------------------------------------------------------------------------------------

    def grant(self) -> int:
        lease_id = len(self.leases) + 1
        self.leases[lease_id] = set()
        return lease_id

    def expire(self, lease_id: int) -> None:
        """End a lease: its keys are deleted in one change. It is not used again."""
        keys = sorted(self.leases[lease_id])
        self.transact([], [Delete(key) for key in keys])
        self.leases[lease_id] = {b"ended"}

    def is_ended(self, lease_id: int) -> bool:
        return self.leases[lease_id] == {b"ended"}

    # ---- parts
    # ---------------------------------------------------------------------------------------------

    def _holds(self, guard: Guard) -> bool:
        entry = self.entries.get(guard.key)
        match guard:
            case Absent():
                return entry is None
            case Unchanged(_, revision):
                return entry is not None and entry.mod_revision == revision
            case CreatedAt(_, revision):
                return entry is not None and entry.create_revision == revision

    def _change(self, operation: Operation) -> Event:
        key = operation.key
        for attached in self.leases.values():
            attached.discard(key)
        if isinstance(operation, Delete):
            del self.entries[key]
            return Event(key, None, self.revision)
        if operation.lease_id:
            assert not self.is_ended(operation.lease_id)
            self.leases[operation.lease_id].add(key)
        old = self.entries.get(key)
        created = self.revision if old is None else old.create_revision
        self.entries[key] = KeyValue(key, operation.value, created, self.revision)
        return Event(key, self.entries[key], self.revision)
