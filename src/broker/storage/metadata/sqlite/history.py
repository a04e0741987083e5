"""The latest changes of the file, which watches read: in memory, or in a table for all processes.

Both keep whole revisions: METADATA_HISTORY_ROWS_MAX events and METADATA_HISTORY_BYTES_MAX bytes of
keys and values at most. The oldest revisions are removed first, a sixteenth of the limits at once.
"""

import sqlite3
from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from typing import NamedTuple

from broker.model.limits import METADATA_KEY_BYTES_MAX
from broker.storage.metadata import Compacted, Event, KeyValue, prefix_end, store_limits

_KEPT = 15 / 16  # of the limits, after a removal

SCHEMA = """
CREATE TABLE event (
    revision INTEGER NOT NULL,
    position INTEGER NOT NULL,
    key BLOB NOT NULL,
    value BLOB,
    create_revision INTEGER NOT NULL,
    PRIMARY KEY (revision, position)
) WITHOUT ROWID;
CREATE TABLE history (trimmed INTEGER NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL);
INSERT INTO history SELECT revision, 0, 0 FROM revision;
"""


class Read(NamedTuple):
    """Events of a prefix, in order and complete up to a revision."""

    events: list[Event]
    following: int  # the revision to read from next
    is_all: bool  # there are no more yet


class MemoryHistory:
    """The changes since a revision, in one process."""

    def __init__(self, revision: int) -> None:
        """Keep what follows a revision."""
        self._trimmed = revision  # the last revision that is not kept
        self._events: list[Event] = []
        self._bytes = 0

    def add(self, events: Sequence[Event]) -> None:
        """Keep the events of one revision, which is higher than those before."""
        self._events += events
        self._bytes += sum(map(_size, events))
        rows_max, bytes_max = (
            store_limits.METADATA_HISTORY_ROWS_MAX,
            store_limits.METADATA_HISTORY_BYTES_MAX,
        )
        if len(self._events) > rows_max or self._bytes > bytes_max:
            self._trim(int(rows_max * _KEPT), int(bytes_max * _KEPT))

    def read(self, prefix: bytes, from_revision: int) -> Read:
        """Return the events of a prefix from a revision on; Compacted when some are not kept."""
        if from_revision <= self._trimmed:
            raise Compacted(self._trimmed + 1)
        first = bisect_left(self._events, from_revision, key=attrgetter("revision"))
        events = [each for each in self._events[first:] if each.key.startswith(prefix)]
        following = self._events[-1].revision + 1 if self._events else from_revision
        return Read(events, max(from_revision, following), is_all=True)

    def _trim(self, rows: int, size: int) -> None:
        removed = 0  # what is left of a revision in part is never read
        while len(self._events) - removed > rows or self._bytes > size:
            self._trimmed = self._events[removed].revision
            self._bytes -= _size(self._events[removed])
            removed += 1
        del self._events[:removed]


class EventTable:
    """The changes since a revision, in the file. Every call is part of a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Use a connection to a file with the tables of SCHEMA."""
        self._execute = connection.execute

    def add(self, events: Sequence[Event]) -> None:
        """Keep the events of one revision, which is higher than those before."""
        added = (len(events), sum(map(_size, events)))
        self._execute("UPDATE history SET rows = rows + ?, bytes = bytes + ?", added)
        rows, size = self._execute("SELECT rows, bytes FROM history").fetchone()
        for position, (key, entry, revision) in enumerate(events):
            value, created = (entry.value, entry.create_revision) if entry else (None, 0)
            row = (revision, position, key, value, created)
            self._execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)
        rows_max, bytes_max = (
            store_limits.METADATA_HISTORY_ROWS_MAX,
            store_limits.METADATA_HISTORY_BYTES_MAX,
        )
        if rows > rows_max or size > bytes_max:
            self._trim(rows - int(rows_max * _KEPT), size - int(bytes_max * _KEPT))

    def read(self, prefix: bytes, from_revision: int) -> Read:
        """Return the next events of a prefix from a revision on; Compacted when some are not kept.

        They are those among the next METADATA_EVENTS_PER_READ events of all keys.
        """
        (trimmed,) = self._execute("SELECT trimmed FROM history").fetchone()
        if from_revision <= trimmed:
            raise Compacted(trimmed + 1)
        last, count = self._execute(
            "SELECT max(revision), count(*) FROM (SELECT revision FROM event WHERE revision >= ?"
            " ORDER BY revision LIMIT ?)",
            (from_revision, store_limits.METADATA_EVENTS_PER_READ),
        ).fetchone()
        if last is None:
            return Read([], from_revision, is_all=True)
        rows = self._execute(
            "SELECT key, value, create_revision, revision FROM event"
            " WHERE revision BETWEEN ? AND ? AND key >= ? AND key < ? ORDER BY revision, position",
            (from_revision, last, prefix, key_range_end(prefix)),
        )
        events = [
            Event(key, None if value is None else KeyValue(key, value, created, revision), revision)
            for key, value, created, revision in rows
        ]
        return Read(events, last + 1, is_all=count < store_limits.METADATA_EVENTS_PER_READ)

    def _trim(self, rows: int, size: int) -> None:
        """Remove the oldest revisions, with at least so many rows and bytes."""
        removed_rows = removed_bytes = trimmed = 0
        for revision, count, length in self._execute(
            "SELECT revision, count(*), sum(length(key) + ifnull(length(value), 0)) FROM event"
            " GROUP BY revision ORDER BY revision"
        ):
            if removed_rows >= rows and removed_bytes >= size:
                break
            trimmed, removed_rows = revision, removed_rows + count
            removed_bytes += length
        self._execute("DELETE FROM event WHERE revision <= ?", (trimmed,))
        self._execute(
            "UPDATE history SET trimmed = ?, rows = rows - ?, bytes = bytes - ?",
            (trimmed, removed_rows, removed_bytes),
        )


def key_range_end(prefix: bytes) -> bytes:
    """Return a key beyond all keys with this prefix."""
    return prefix_end(prefix) or b"\xff" * (METADATA_KEY_BYTES_MAX + 1)


def _size(event: Event) -> int:
    return len(event.key) + (len(event.entry.value) if event.entry else 0)
