"""The file of one process: `metadata.db`, SQLite in WAL mode.

    kv             key -> value, create_revision, mod_revision
    revision       one row: the revision of the last change
    lease, leased  leases and their keys, from the first lease on (leases.py)

`synchronous=FULL` makes a commit durable on return. Measured per change (ext4, virtual disk, SQLite
3.40): 0.5 ms with the WAL (p99 1.6), 1.3 ms with a rollback journal (p99 2.9). The file is locked
as long as it is open, because only then does SQLite keep the WAL's index in private memory:
otherwise it is a mapped file, and an I/O error under a mapping ends the process (SIGBUS).

The latest changes are in memory (history.py), once somebody follows them. A file that several
processes have shared (shared.py) is converted at a start: its history is removed, its leases end.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TypeVar

from broker._native.kernel import file_ops
from broker.model import limits
from broker.model.clock import monotonic_ns
from broker.model.errors import DataDirError, DiskFull, StorageError
from broker.segments.text_files import PARTITION_METADATA
from broker.storage.metadata import (
    Absent,
    CreatedAt,
    Delete,
    Event,
    Guard,
    KeyValue,
    Operation,
    Put,
    Unavailable,
    Unchanged,
    check_operations,
)
from broker.storage.metadata.sqlite import leases
from broker.storage.metadata.sqlite.history import MemoryHistory, Read, key_range_end
from broker.storage.metadata.sqlite.leases import LeaseTable

FILE_NAME = "metadata.db"
APPLICATION_ID = 0x504C4F47  # "PLOG", shown by file(1)
SCHEMA_VERSION = 1
SHARED_SCHEMA_VERSION = 2
_T = TypeVar("_T")
_log = logging.getLogger(__name__)

_RESTORE = "restore it and its -wal file from a backup, or start with another data directory"
_OWN = "make it readable and writable for this user, or start with another data directory"
_IN_USE = "another program has it open: end that one first"
_ADVICE = {  # by SQLite's result code
    sqlite3.SQLITE_BUSY: _IN_USE,
    sqlite3.SQLITE_LOCKED: _IN_USE,
    sqlite3.SQLITE_CANTOPEN: _OWN,
    sqlite3.SQLITE_PERM: _OWN,
    sqlite3.SQLITE_READONLY: _OWN,
}
_FAILURES: dict[int, type[StorageError]] = {
    sqlite3.SQLITE_FULL: DiskFull,
    sqlite3.SQLITE_BUSY: Unavailable,
    sqlite3.SQLITE_LOCKED: Unavailable,
}

_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE kv (
    key BLOB PRIMARY KEY,
    value BLOB NOT NULL,
    create_revision INTEGER NOT NULL,
    mod_revision INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE revision (revision INTEGER NOT NULL);
INSERT INTO revision VALUES (0);
PRAGMA application_id = 0x504C4F47;
PRAGMA user_version = 1;
COMMIT;
"""


class SqliteMetaStore:
    """A BlockingMetaStore in one file, and what store.py needs for watches and leases."""

    LOCKING_MODE = "EXCLUSIVE"

    __slots__ = ("_calling", "_connection", "_history", "_leases", "_path", "when_changed")

    def __init__(self, path: Path) -> None:
        """Open the file, or create it if there are no partitions yet.

        DataDirError when it is damaged, lost, in use or of another version; StorageError when the
        disk fails.
        """
        self._path = path
        self._calling = Lock()
        self._history: MemoryHistory | None = None
        self._leases: LeaseTable | None = None
        self.when_changed: Callable[[], None] | None = None  # called in the thread of a commit
        try:
            if _is_new(path):
                _create(path)
            # Several threads call (storage/metadata/__init__.py), one at a time: `_calling`.
            self._connection = sqlite3.connect(
                path,
                timeout=limits.METADATA_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.DatabaseError as error:
            raise _failure_of_start(path, error) from error
        except OSError as error:
            raise DataDirError(f"{path} cannot be used ({error}): {_OWN}") from error

    def get(self, key: bytes) -> KeyValue | None:
        """Return the key, or None."""
        with self._storage_errors("read"):
            return self._get(key)

    def scan(self, prefix: bytes) -> tuple[list[KeyValue], int]:
        """Return all keys that begin with prefix, in order, and the revision of the read."""
        with self._storage_errors("read"), self._transaction("BEGIN"):
            rows = self._connection.execute(
                "SELECT key, value, create_revision, mod_revision FROM kv"
                " WHERE key >= ? AND key < ? ORDER BY key",
                (prefix, key_range_end(prefix)),
            )
            return [KeyValue(*row) for row in rows], self._revision()

    def transact(self, guards: Sequence[Guard], operations: Sequence[Operation]) -> int | None:
        """Apply the operations if every guard holds; return the new revision, or None."""
        check_operations(operations)
        with self._storage_errors("write"):
            return self._write(lambda: self._transact(guards, operations))

    def follow(self, when_changed: Callable[[], None] | None) -> None:
        """Keep the latest changes from now on, and call a function after each."""
        with self._storage_errors("read"):
            self._history = MemoryHistory(self._revision())
            self.when_changed = when_changed

    def changes(self, prefix: bytes, from_revision: int) -> Read:
        """Return events of a prefix from a revision on; Compacted when some are not known."""
        with self._storage_errors("read"):
            return self._read_changes(prefix, from_revision)

    def grant(self, lease_id: int, deadline: int) -> None:
        """Create a lease of this process that ends at a time of the monotonic clock, in ns."""
        with self._storage_errors("write"):
            self._begin_leases()
            self._take_lock(lease_id)
            try:
                self._write_unsynced(lambda table: table.add(lease_id, deadline))
            except BaseException:
                self._free_lock(lease_id)
                raise

    def renew(self, lease_id: int, deadline: int) -> bool:
        """Let a lease end later; return whether it has not ended yet."""
        with self._storage_errors("write"):
            now = monotonic_ns()
            is_held = self._write_unsynced(lambda table: table.renew(lease_id, deadline, now))
            if not is_held:
                self._free_lock(lease_id)
            return is_held

    def revoke(self, lease_id: int) -> None:
        """End a lease: delete its keys."""
        with self._storage_errors("write"):
            self._write(lambda: self._end_leases(lambda each, _: each == lease_id))

    def look(self) -> bool:
        """End what leases are over; return whether another process has changed something since."""
        if self._leases is not None:
            with self._storage_errors("write"):
                if any(self._is_over(*each) for each in self._leases.deadlines()):
                    self._write(lambda: self._end_leases(self._is_over))
        return False

    def _write(self, work: Callable[[], _T]) -> _T:
        try:
            return work()
        except sqlite3.Error as error:
            if _kind(error) != sqlite3.SQLITE_FULL:
                raise
            # Checkpoint the WAL, so that the next commit overwrites it from its start: that
            # needs no disk space beyond what the two files have already.
            self._connection.execute("PRAGMA wal_checkpoint(RESTART)")
            return work()

    def _write_unsynced(self, change: Callable[[LeaseTable], _T]) -> _T:
        """Change leases without a sync: after a failure of power nobody has one."""
        table = self._leases
        assert table is not None
        self._connection.execute("PRAGMA synchronous = NORMAL")
        try:
            return self._write(lambda: change(table))
        finally:
            self._connection.execute("PRAGMA synchronous = FULL")

    def _transact(self, guards: Sequence[Guard], operations: Sequence[Operation]) -> int | None:
        with self._transaction():
            if not all(map(self._holds, guards)):
                return None
            revision, events = self._apply(operations)
        self._committed(events)
        return revision

    def _end_leases(self, is_over: Callable[[int, int], bool]) -> None:
        """Remove leases and delete their keys, in one change of all of them."""
        table = self._leases
        assert table is not None
        with self._transaction():
            ended = [each for each, deadline in table.deadlines() if is_over(each, deadline)]
            keys = [key for lease_id in ended for key in table.remove(lease_id)]
            _, events = self._apply([Delete(key) for key in keys]) if keys else (0, [])
        for lease_id in ended:
            self._free_lock(lease_id)
        self._committed(events)

    def _apply(self, operations: Sequence[Operation]) -> tuple[int, list[Event]]:
        """Apply operations within a transaction; return their revision, and events if needed."""
        revision = self._revision() + 1
        changed = [each for each in operations if self._apply_one(each, revision)]
        self._connection.execute("UPDATE revision SET revision = ?", (revision,))
        if not self._is_recording():
            return revision, []
        events = [Event(each.key, self._get(each.key), revision) for each in changed]
        self._add_to_history(events)
        return revision, events

    def close(self) -> None:
        """Checkpoint the WAL and close both files."""
        self._connection.close()

    def _prepare(self) -> None:
        execute = self._connection.execute
        execute(f"PRAGMA locking_mode = {self.LOCKING_MODE}")  # before anything is read
        execute("PRAGMA synchronous = FULL")
        version = pragma(execute("PRAGMA user_version"))
        if pragma(execute("PRAGMA application_id")) != APPLICATION_ID:
            raise DataDirError(f"{self._path} is a SQLite file of another program")
        if version not in {SCHEMA_VERSION, SHARED_SCHEMA_VERSION}:
            raise DataDirError(
                f"{self._path} has schema version {version}, this broker knows"
                f" {SHARED_SCHEMA_VERSION}:"
                " start it with the version of polylog that wrote it, or a newer one"
            )
        damage = pragma(execute("PRAGMA quick_check(1)"))
        if damage != "ok":
            raise sqlite3.DatabaseError(" ".join(str(damage).split()))  # it may have many lines
        self._revision()
        self._adopt(int(version))

    def _get(self, key: bytes) -> KeyValue | None:
        row = self._connection.execute(
            "SELECT key, value, create_revision, mod_revision FROM kv WHERE key = ?", (key,)
        ).fetchone()
        return KeyValue(*row) if row else None

    def _revision(self) -> int:
        (revision,) = self._connection.execute("SELECT revision FROM revision").fetchone()
        return int(revision)

    def _holds(self, guard: Guard) -> bool:
        current = self._get(guard.key)
        match guard:
            case Absent():
                return current is None
            case Unchanged(_, revision):
                return current is not None and current.mod_revision == revision
            case CreatedAt(_, revision):
                return current is not None and current.create_revision == revision

    def _apply_one(self, operation: Operation, revision: int) -> bool:
        """Apply an operation; return whether it has changed something."""
        key, execute = operation.key, self._connection.execute
        if isinstance(operation, Put):
            if self._leases is not None:
                self._leases.attach(key, operation.lease_id, monotonic_ns())
            elif operation.lease_id:
                raise StorageError(f"lease {operation.lease_id:x} has ended")
            execute(
                "INSERT INTO kv VALUES (?, ?, ?, ?) ON CONFLICT (key) DO UPDATE"
                " SET value = excluded.value, mod_revision = excluded.mod_revision",
                (key, operation.value, revision, revision),
            )
            return True
        if self._leases is not None:
            self._leases.detach(key)
        return execute("DELETE FROM kv WHERE key = ?", (key,)).rowcount > 0

    # What differs between the file of one process and a shared one.

    def _adopt(self, version: int) -> None:
        """Take over the file: nobody else has it open, so no lease has an owner."""
        if version == SHARED_SCHEMA_VERSION or self._has_leases():
            self._begin_leases()
            self._end_leases(lambda *_: True)
            self._leases = None
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {leases.DROP} DROP TABLE IF EXISTS event;"
                f" DROP TABLE IF EXISTS history; PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )

    def _read_changes(self, prefix: bytes, from_revision: int) -> Read:
        assert self._history is not None, "follow() comes first"
        return self._history.read(prefix, from_revision)

    def _is_recording(self) -> bool:
        return self._history is not None

    def _add_to_history(self, events: Sequence[Event]) -> None:
        """Add the events of a transaction to a history that is in the file."""

    def _committed(self, events: Sequence[Event]) -> None:
        if not events:
            return
        if self._history is not None:
            self._history.add(events)
        if self.when_changed is not None:
            self.when_changed()

    def _take_lock(self, lease_id: int) -> None:
        """Tell other processes that the owner of a lease lives."""

    def _free_lock(self, lease_id: int) -> None:
        """Tell other processes that a lease has no owner."""

    def _is_over(self, lease_id: int, deadline: int) -> bool:
        del lease_id  # its process is this one
        return deadline <= monotonic_ns()

    def _begin_leases(self) -> None:
        if self._leases is None:
            self._connection.executescript(f"BEGIN IMMEDIATE; {leases.SCHEMA} COMMIT;")
            self._leases = LeaseTable(self._connection)

    def _has_leases(self) -> bool:
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'lease'")
        return pragma(tables) != 0

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
        """Make all statements one change, or with BEGIN reads of one revision."""
        self._connection.execute(begin)
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _storage_errors(self, verb: str) -> Iterator[None]:
        try:
            with self._calling:
                yield
        except sqlite3.Error as error:
            failure = _FAILURES.get(_kind(error), StorageError)
            _log.error("metadata store failed: doing=%s file=%s error=%s", verb, self._path, error)
            raise failure(f"cannot {verb} {self._path}: {error}") from error


def _is_new(path: Path) -> bool:
    """Return whether there is no store yet; DataDirError when one is missing.

    A new, empty store would have no topic, and the start would rename all partitions to strays.
    """
    try:
        if path.stat().st_size:
            return False
    except FileNotFoundError:
        pass
    folder = path.parent
    partitions = [
        name
        for name in file_ops.list_folder(folder)
        if name.rpartition("-")[2].isdigit() and (folder / name / PARTITION_METADATA).exists()
    ]
    if partitions:
        raise DataDirError(
            f"{path} is empty or missing, and {folder} has {len(partitions)} partitions"
            f" (such as {partitions[0]}), which cannot be used without it: restore it and its"
            " -wal file from a backup, or move those folders away to begin without them"
        )
    return True


def _failure_of_start(path: Path, error: sqlite3.DatabaseError) -> DataDirError | StorageError:
    kind = _kind(error)
    if kind in {sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM}:
        return StorageError(f"cannot read {path}: {error}")
    if kind == sqlite3.SQLITE_FULL:
        return DiskFull(f"cannot read {path}: {error}")
    advice = _ADVICE.get(kind, _RESTORE)
    return DataDirError(f"{path} cannot be used as the metadata store ({error}): {advice}")


def _kind(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code; CORRUPT for what quick_check has found."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF


def _create(path: Path) -> None:
    """Create an empty store atomically.

    SQLite syncs seven times to create an empty file in WAL mode, and half of the syncs wait for the
    file system's journal. So it creates a temporary file without syncs, which two syncs then put in
    place: 7 ms instead of 17 on a busy disk.
    """
    new = path.with_name(f"{path.name}.new")
    for leftover in (new, Path(f"{new}-journal"), Path(f"{new}-wal"), Path(f"{path}-wal")):
        leftover.unlink(missing_ok=True)
    connection = sqlite3.connect(new, isolation_level=None)
    try:
        connection.executescript(f"PRAGMA synchronous = OFF; PRAGMA journal_mode = WAL; {_SCHEMA}")
    finally:
        connection.close()
    file_ops.write_file_atomic(path, file_ops.read_file(new))
    new.unlink()


def pragma(rows: sqlite3.Cursor) -> int | str:
    """Return the one value of a result."""
    (value,) = rows.fetchone()
    return value if isinstance(value, int) else str(value)
