"""Reads the events and snapshots of a log."""

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import NamedTuple

from broker._native.protocols.cursus.batch import AGGREGATE_VERSION, SNAPSHOT_VERSION
from broker.codec.columns import records
from broker.codec.headers import BatchHeader, scan_headers
from broker.core.logs.log import Log
from broker.core.logs.reading import UNREADABLE
from broker.core.scheduling.steps import next_step
from broker.model.stream_limits import EVENTS_RECENT_MAX, STREAMS_LOADED_BYTES_PER_STEP
from broker.protocols.cursus.event_streams.file import Snapshot

_log = logging.getLogger(__name__)


class Part(NamedTuple):
    """What a part of a log has: events as in a file's Events, snapshots, and where it ends."""

    events: dict[bytes, list[int]]
    snapshots: dict[bytes, Snapshot]
    end: int


class _Found(NamedTuple):
    """A record of a stream."""

    key: bytes
    offset: int
    version: int  # of an event; 0: it is a snapshot
    snapshot_version: int


async def parts(log: Log, start: int, end: int) -> AsyncGenerator[Part, None]:
    """Yield the parts of a log from an offset up to an end, at which a batch begins.

    The loop serves others in between. A batch that cannot be read is skipped with a warning: its
    streams miss an event, which reading them finds out. Raises StorageError when the log goes
    offline.
    """
    part = Part({}, {}, start)
    count = 0
    async for data in _runs(log, start, end):
        for found in _read(data):
            if count >= EVENTS_RECENT_MAX or not _follows(part, found):
                yield part._replace(end=found.offset)
                part, count = Part({}, {}, start), 0
            _add(part, found)
            count += 1
    yield part._replace(end=end)


def _follows(part: Part, found: _Found) -> bool:
    """Return whether an event is the next one of its stream in a part, or the first."""
    events = part.events.get(found.key)
    return found.version == 0 or events is None or events[0] + len(events) == found.version


def _add(part: Part, found: _Found) -> None:
    if found.version == 0:
        part.snapshots[found.key] = Snapshot(found.snapshot_version, found.offset)
    else:
        part.events.setdefault(found.key, [found.version - 1]).append(found.offset)


async def _runs(log: Log, offset: int, end: int) -> AsyncIterator[bytes]:
    """Yield batches, a few at a time."""
    while (offset := max(offset, log.log_start_offset)) < end:
        data = log.read(offset, STREAMS_LOADED_BYTES_PER_STEP, True, end)
        headers = list(scan_headers(data))
        if not headers:
            return
        yield data
        offset = headers[-1].last_offset + 1
        await next_step()


def _read(data: bytes) -> list[_Found]:
    """Return the events and snapshots of batches."""
    try:
        return list(_found(data))
    except UNREADABLE:
        return [found for header in scan_headers(data) for found in _readable(header, data)]


def _readable(header: BatchHeader, data: bytes) -> list[_Found]:
    """Return those of one batch, if it can be read."""
    try:
        return list(_found(data[header.position : header.position + header.size]))
    except UNREADABLE as error:
        offset = header.base_offset
        _log.warning("batch not read for its streams: offset=%d error=%s", offset, error)
        return []


def _found(data: bytes) -> Iterator[_Found]:
    for record in records(data):
        headers = dict(record.headers)
        version = _number(headers.get(AGGREGATE_VERSION))
        snapshot_version = _number(headers.get(SNAPSHOT_VERSION))
        if record.key is not None and (version or snapshot_version):
            yield _Found(bytes(record.key), record.offset, version, snapshot_version)


def _number(value: bytes | None) -> int:
    return int(value) if value is not None and value.isdigit() else 0
