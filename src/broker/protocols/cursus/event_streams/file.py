"""`event-streams.db` in a partition's folder: which records of the log are those of a stream.

    covered     one row: the topic's id, the offset up to which the log is in the file, and the
                leader epoch of the record before that
    events      key, version -> offset
    snapshots   key -> version, offset: of the latest one

It is SQLite, written in transactions that name the offset which they cover. A power cut may take
the last ones away (`synchronous=NORMAL`), never a part of one; a file that SQLite finds damaged is
made anew from the log. It is locked as long as it is open, because only then does SQLite keep the
WAL's index in private memory: an I/O error under a mapping ends the process.

Each call is one statement, or a few: between two steps of a statement the thread has to wait for
the interpreter's lock, which the loop holds for most of the time. So rows go in and out as JSON.
Keys are texts of the characters 0 to 255, one for each byte.

An empty file may be in the place of one that was damaged, or lost while it was closed, and whoever
asks may not know of that. So no stream is looked up, and none written, until it was begun.
"""

import json
import logging
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from broker._native.kernel import file_ops
from broker.model.errors import StorageError
from broker.model.stream_limits import (
    EVENTS_WRITTEN_PER_STATEMENT,
    STREAM_FILE_CACHE_BYTES,
    STREAM_FILE_LOG_PAGES,
    STREAM_FILES_OPEN_MAX,
)

FILE_NAME: Final = "event-streams.db"
_SUFFIXES: Final = ("", "-wal", "-shm", "-journal")
_VERSION: Final = 1
_DAMAGED: Final = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB))
_SCHEMA: Final = """
BEGIN IMMEDIATE;
CREATE TABLE covered (topic_id TEXT NOT NULL, offset INTEGER NOT NULL, epoch INTEGER NOT NULL);
INSERT INTO covered VALUES ('', 0, -1);
CREATE TABLE events (
    key TEXT, version INTEGER, offset INTEGER NOT NULL, PRIMARY KEY (key, version)
) WITHOUT ROWID;
CREATE TABLE snapshots (
    key TEXT PRIMARY KEY, version INTEGER NOT NULL, offset INTEGER NOT NULL
) WITHOUT ROWID;
PRAGMA user_version = 1;
COMMIT;
"""
_ADD_EVENTS: Final = """
INSERT OR REPLACE INTO events
SELECT stream.key, json_extract(stream.value, '$[0]') + event.key, event.value
FROM json_each(?) AS stream, json_each(stream.value) AS event WHERE event.key > 0
"""
_ADD_SNAPSHOTS: Final = """
INSERT OR REPLACE INTO snapshots
SELECT key, json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?)
"""
_VERSIONS: Final = """
SELECT json_group_array(
    (SELECT version FROM events WHERE key = wanted.value ORDER BY version DESC LIMIT 1))
FROM json_each(?) AS wanted
"""
_OFFSETS: Final = """
SELECT min(version), max(version), json_group_array(offset) FROM (
    SELECT version, offset FROM events WHERE key = ? AND version >= ? ORDER BY version LIMIT ?)
"""
# Each page goes on behind the last key, so the rest of a long stream is not read.
_KEYS: Final = """
SELECT json_group_array(key) FROM (
    SELECT DISTINCT key FROM (SELECT key FROM events WHERE key > ? ORDER BY key LIMIT ?))
"""
_SNAPSHOT: Final = "SELECT version, offset FROM snapshots WHERE key = ?"
_T = TypeVar("_T")
_log = logging.getLogger(__name__)

# By key: the version before the first event, and the offsets of consecutive events.
Events: TypeAlias = Mapping[bytes, Sequence[int]]


class Snapshot(NamedTuple):
    """Where a snapshot is, and the version of its stream that it was made at."""

    version: int
    offset: int


class Covered(NamedTuple):
    """What a file covers: all below an offset, and the epoch of the record before that."""

    topic_id: str
    offset: int
    epoch: int


class Found(NamedTuple):
    """What a file knows of a stream: offsets of consecutive events, and its latest snapshot."""

    first_version: int
    offsets: list[int]
    snapshot: Snapshot | None


class DamagedFileError(StorageError):
    """SQLite has found a file damaged."""


class StreamFile:
    """The file of one partition. All calls block; they raise StorageError."""

    __slots__ = ("_connection", "_is_begun", "_path")

    def __init__(self, folder: Path) -> None:
        """Open the file, or make an empty one."""
        self._path = folder / FILE_NAME
        try:
            self._connection = sqlite3.connect(
                self._path, isolation_level=None, check_same_thread=False
            )
        except sqlite3.DatabaseError as error:
            raise self._failure(error) from error
        try:
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise self._failure(error) from error

    def _prepare(self) -> None:
        self._connection.executescript(
            "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
            " PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY; PRAGMA mmap_size = 0;"
            f" PRAGMA cache_size = -{STREAM_FILE_CACHE_BYTES >> 10};"
            f" PRAGMA wal_autocheckpoint = {STREAM_FILE_LOG_PAGES};"
        )
        (version,) = self._connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            self._connection.executescript(_SCHEMA)
        elif version != _VERSION:
            raise DamagedFileError(f"{self._path}: it is of version {version}")
        begun = self._connection.execute("SELECT 1 FROM covered WHERE topic_id <> ''").fetchone()
        self._is_begun = begun is not None

    def _failure(self, error: sqlite3.DatabaseError) -> StorageError:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_NOTADB)
        kind = DamagedFileError if code & 0xFF in _DAMAGED else StorageError
        return kind(f"{self._path}: {error}")

    def close(self) -> None:
        """Close it; what was written is in it."""
        self._connection.close()

    def covered(self) -> Covered:
        """Return what it covers."""
        return Covered(*self._row("SELECT topic_id, offset, epoch FROM covered", ()))

    def begin(self, topic_id: str) -> None:
        """Note whose events it has; it is empty."""
        self._row("UPDATE covered SET topic_id = ? RETURNING offset", (topic_id,))
        self._is_begun = True

    def write(
        self, events: Events, snapshots: Mapping[bytes, Snapshot], offset: int, epoch: int
    ) -> None:
        """Add events and snapshots: it covers the log up to an offset then."""
        self._check_begun()
        try:
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                for part in _parts(events):
                    self._connection.execute(_ADD_EVENTS, (part,))
                if snapshots:
                    latest = {_text(key): list(each) for key, each in snapshots.items()}
                    self._connection.execute(_ADD_SNAPSHOTS, (_json(latest),))
                self._connection.execute(
                    "UPDATE covered SET offset = ?, epoch = ?", (offset, epoch)
                )
        except sqlite3.DatabaseError as error:
            raise self._failure(error) from error

    def versions(self, keys: Iterable[bytes]) -> list[int]:
        """Return the version of each stream, 0 for one without events."""
        [found] = self._find(_VERSIONS, (_json([*map(_text, keys)]),))
        return [version or 0 for version in json.loads(found)]

    def keys(self, after: bytes, events_max: int) -> list[bytes]:
        """Return keys of streams in their order, those behind another; none at the end."""
        [found] = self._find(_KEYS, (_text(after), events_max))
        return [key.encode("latin-1") for key in json.loads(found)]

    def offsets(self, key: bytes, first_version: int, count_max: int) -> list[int]:
        """Return the offsets of a stream's events from a version on.

        Raises StorageError if one is missing between two others, or before them.
        """
        values = (_text(key), first_version, count_max)
        first, last, found = self._find(_OFFSETS, values)
        offsets: list[int] = json.loads(found)
        if offsets and (first, last) != (first_version, first_version + len(offsets) - 1):
            raise StorageError(f"{self._path}: a version of a stream is missing")
        return offsets

    def snapshot(self, key: bytes) -> Snapshot | None:
        """Return a stream's latest snapshot."""
        row = self._find(_SNAPSHOT, (_text(key),))
        return Snapshot(*row) if row else None

    def _find(self, statement: str, values: tuple[object, ...]) -> tuple[Any, ...]:
        self._check_begun()
        return self._row(statement, values)

    def _check_begun(self) -> None:
        if not self._is_begun:
            raise DamagedFileError(f"{self._path}: it is new, the one before is gone")

    def _row(self, statement: str, values: tuple[object, ...]) -> tuple[Any, ...]:
        try:
            row: tuple[Any, ...] | None = self._connection.execute(statement, values).fetchone()
        except sqlite3.DatabaseError as error:
            raise self._failure(error) from error
        return row or ()


class StreamFiles:
    """The files of all partitions, of which a few are open. For one thread."""

    __slots__ = ("_open",)

    def __init__(self) -> None:
        """Open none yet."""
        self._open: OrderedDict[Path, StreamFile] = OrderedDict()  # least recently used first

    def run(self, folder: Path, work: Callable[[StreamFile], _T]) -> _T:
        """Run work with the file of a partition's folder; a damaged one is removed."""
        try:
            return work(self._of(folder))
        except DamagedFileError as error:
            _log.warning("damaged file of streams: folder=%s error=%s", folder, error)
            self.remove(folder)
            raise

    def begin_anew(self, folder: Path, topic_id: str) -> None:
        """Begin an empty file; one that was used before is removed."""
        if self._of(folder).covered().topic_id:
            self.remove(folder)
        self._of(folder).begin(topic_id)

    def _of(self, folder: Path) -> StreamFile:
        found = self._open.pop(folder, None)
        if found is None:
            while len(self._open) >= STREAM_FILES_OPEN_MAX:
                self._open.popitem(last=False)[1].close()
            found = StreamFile(folder)
        self._open[folder] = found
        return found

    def remove(self, folder: Path) -> None:
        """Remove the file of a folder.

        The database goes first, and for good: SQLite drops a log of changes that it finds without
        one, but a database may be torn without the log of its last changes.
        """
        self.close(folder)
        for suffix in _SUFFIXES:
            path = folder / (FILE_NAME + suffix)
            if path.exists():
                file_ops.remove(path)
                file_ops.sync_folder(folder)

    def close(self, folder: Path) -> None:
        """Close the file of a folder, if it is open."""
        found = self._open.pop(folder, None)
        if found is not None:
            found.close()

    def close_all(self) -> None:
        """Close all of them."""
        while self._open:
            self._open.popitem()[1].close()


def _parts(events: Events) -> Iterator[str]:
    """Yield the events as JSON, in the order of their keys, so that neighbours are one write."""
    part: dict[str, Sequence[int]] = {}
    count = 0
    for key in sorted(events):
        offsets = events[key]
        for start in range(1, len(offsets), EVENTS_WRITTEN_PER_STATEMENT):
            some = offsets[start : start + EVENTS_WRITTEN_PER_STATEMENT]
            part[_text(key)] = [offsets[0] + start - 1, *some]
            count += len(some)
            if count >= EVENTS_WRITTEN_PER_STATEMENT:
                yield _json(part)
                part, count = {}, 0
    if part:
        yield _json(part)


def _text(key: bytes) -> str:
    return key.decode("latin-1")


def _json(thing: object) -> str:
    return json.dumps(thing, ensure_ascii=False, separators=(",", ":"))
