"""The leases of the file: deadlines, and the keys that are deleted with a lease.

Deadlines are nanoseconds of CLOCK_MONOTONIC, the clock by which an owner stops: all processes of a
host read the same one, also after the machine has slept. After a restart of the machine no lease
has an owner (process_locks.py), so deadlines are never compared with those of another boot.
"""

import sqlite3

from broker.model.errors import StorageError

SCHEMA = """
CREATE TABLE IF NOT EXISTS lease (id INTEGER PRIMARY KEY, deadline INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS leased (key BLOB PRIMARY KEY, lease INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS leased_by ON leased (lease);
"""
DROP = "DROP TABLE IF EXISTS lease; DROP TABLE IF EXISTS leased;"


class LeaseTable:
    """The leases, on a connection to a file with the tables of SCHEMA."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Use a connection."""
        self._execute = connection.execute

    def add(self, lease_id: int, deadline: int) -> None:
        """Add a lease."""
        self._execute("INSERT INTO lease VALUES (?, ?)", (lease_id, deadline))

    def renew(self, lease_id: int, deadline: int, now: int) -> bool:
        """Set a lease's deadline; return whether it had not ended before."""
        renewed = self._execute(
            "UPDATE lease SET deadline = ? WHERE id = ? AND deadline > ?", (deadline, lease_id, now)
        )
        return renewed.rowcount > 0

    def deadlines(self) -> list[tuple[int, int]]:
        """Return all leases with their deadlines."""
        return list(self._execute("SELECT id, deadline FROM lease"))

    def attach(self, key: bytes, lease_id: int, now: int) -> None:
        """Attach a key to a lease, or to none for 0; StorageError when the lease has ended."""
        self.detach(key)
        if not lease_id:
            return
        held = self._execute("SELECT 1 FROM lease WHERE id = ? AND deadline > ?", (lease_id, now))
        if held.fetchone() is None:
            raise StorageError(f"lease {lease_id:x} has ended")
        self._execute("INSERT INTO leased VALUES (?, ?)", (key, lease_id))

    def detach(self, key: bytes) -> None:
        """Attach a key to no lease."""
        self._execute("DELETE FROM leased WHERE key = ?", (key,))

    def remove(self, lease_id: int) -> list[bytes]:
        """Remove a lease; return the keys that were attached to it, in order."""
        self._execute("DELETE FROM lease WHERE id = ?", (lease_id,))
        rows = self._execute("SELECT key FROM leased WHERE lease = ? ORDER BY key", (lease_id,))
        keys = [key for (key,) in rows]
        self._execute("DELETE FROM leased WHERE lease = ?", (lease_id,))
        return keys
