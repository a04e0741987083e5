"""`metadata.db` for several processes of one host.

In addition to the tables of one process it has (schema version 2):

    event, history   the latest changes, for watches (history.py)
    lease, leased    leases and their keys (leases.py)

SQLite's locking lets one process write at a time; a reader waits for nobody. A process that waits
METADATA_BUSY_SECONDS for others gets Unavailable, with nothing changed. What a process that ended
within a transaction has written is ignored by the others.

Several processes share the WAL's index as a mapped file, `metadata.db-shm`. An I/O error under a
mapping ends the process (SIGBUS): the price of this mode, and the reason for the other one, in
which one process has the file locked and the index in its memory. SQLite allocates the blocks of
the mapped file before it uses them, so a full disk is an error and no signal.

`metadata.db-locks` and `metadata.db-wakeups` are beside the file; they have no content and may be
removed while no process runs.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from broker.model.clock import monotonic_ns
from broker.model.errors import DataDirError
from broker.storage.metadata import Event
from broker.storage.metadata.sqlite import history, leases
from broker.storage.metadata.sqlite.database import (
    SHARED_SCHEMA_VERSION,
    SqliteMetaStore,
    pragma,
)
from broker.storage.metadata.sqlite.history import EventTable, Read
from broker.storage.metadata.sqlite.leases import LeaseTable
from broker.storage.metadata.sqlite.process_locks import ProcessLocks
from broker.storage.metadata.sqlite.wakeups import Wakeups


class SharedSqliteMetaStore(SqliteMetaStore):
    """The same calls as of the file of one process; watches and leases are of all processes."""

    LOCKING_MODE = "NORMAL"

    __slots__ = ("_data_version", "_locks", "_table", "_wakeups")

    def __init__(self, path: Path) -> None:
        """Open the file, or create it if there are no partitions yet.

        DataDirError when it is damaged, lost, of another version, or in use by a process that does
        not share it; StorageError when the disk fails.
        """
        self._data_version: int | str = 0
        try:
            self._locks = ProcessLocks(path.with_name(f"{path.name}-locks"))
        except OSError as error:
            raise DataDirError(f"{path} cannot be shared: {error}") from error
        try:
            with self._locks.opening():
                self._wakeups = Wakeups(path.with_name(f"{path.name}-wakeups"))
                try:
                    super().__init__(path)
                except BaseException:
                    self._wakeups.close()
                    raise
        except OSError as error:
            self._locks.close()
            raise DataDirError(f"{path} cannot be shared: {error}") from error
        except BaseException:
            self._locks.close()
            raise

    def follow(self, when_changed: Callable[[], None] | None) -> None:
        """Call a function after each change of this process; the file has the latest changes."""
        self.when_changed = when_changed

    def fileno(self) -> int:
        """Return the descriptor that is readable after other processes' commits."""
        return self._wakeups.fileno()

    def drain(self) -> None:
        """Make the descriptor unreadable until the next commit of another process."""
        self._wakeups.drain()

    def close(self) -> None:
        """Close the file and end this process's locks: other processes end its leases."""
        super().close()
        self._wakeups.close()
        self._locks.close()

    def look(self) -> bool:
        """End what leases are over; return whether any process has changed something since."""
        super().look()
        with self._storage_errors("read"):
            seen = self._data_version
            self._data_version = pragma(self._connection.execute("PRAGMA data_version"))
            return seen != self._data_version

    def _read_changes(self, prefix: bytes, from_revision: int) -> Read:
        with self._transaction("BEGIN"):
            return self._table.read(prefix, from_revision)

    def _adopt(self, version: int) -> None:
        if version != SHARED_SCHEMA_VERSION:
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {history.SCHEMA} {leases.SCHEMA}"
                f" PRAGMA user_version = {SHARED_SCHEMA_VERSION}; COMMIT;"
            )
        self._table = EventTable(self._connection)
        self._leases = LeaseTable(self._connection)
        self._data_version = pragma(self._connection.execute("PRAGMA data_version"))

    def _is_recording(self) -> bool:
        return True

    def _add_to_history(self, events: Sequence[Event]) -> None:
        self._table.add(events)

    def _committed(self, events: Sequence[Event]) -> None:
        super()._committed(events)
        if events:
            self._wakeups.send()

    def _take_lock(self, lease_id: int) -> None:
        self._locks.take(lease_id)

    def _free_lock(self, lease_id: int) -> None:
        self._locks.free(lease_id)

    def _is_over(self, lease_id: int, deadline: int) -> bool:
        return deadline <= monotonic_ns() or not self._locks.is_held(lease_id)
