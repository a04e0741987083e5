"""Reads the events and snapshots of a log."""

import logging
from collections.abc import AsyncIterator
from typing import NamedTuple

from broker._native.protocols.cursus.batch import AGGREGATE_VERSION, SNAPSHOT_VERSION
from broker.codec.columns import records
from broker.codec.control_records import is_control
from broker.codec.headers import BatchHeader, scan_headers
from broker.core.logs.log import Log
from broker.core.logs.reading import UNREADABLE
from broker.core.scheduling.steps import next_step
from broker.model.limits import READ_BYTES_PER_STEP
from broker.model.stream_limits import EVENTS_LOADED_PER_STEP, EVENTS_RECENT_MAX
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


async def parts(log: Log, start: int, end: int) -> AsyncIterator[Part]:
    """Yield the parts of a log from an offset up to an end, at which a batch begins.

    The loop serves others in between. A batch that cannot be read is skipped with a warning: its
    streams miss an event, which reading them finds out. Raises StorageError when the log goes
    offline.
    """
    part = Part({}, {}, start)
    count = 0
    async for header, batch in _batches(log, start, end):
        for found in _read(header, batch):
            if count >= EVENTS_RECENT_MAX or not _follows(part, found):
                yield part._replace(end=header.base_offset)
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


async def _batches(log: Log, offset: int, end: int) -> AsyncIterator[tuple[BatchHeader, bytes]]:
    taken = 0
    while (offset := max(offset, log.log_start_offset)) < end:
        data = log.read(offset, READ_BYTES_PER_STEP, True, end)
        headers = list(scan_headers(data))
        if not headers:
            return
        for header in headers:
            yield header, data[header.position : header.position + header.size]
            taken += 1
            if taken % EVENTS_LOADED_PER_STEP == 0:
                await next_step()
        offset = headers[-1].last_offset + 1
        await next_step()


def _read(header: BatchHeader, batch: bytes) -> list[_Found]:
    """Return the events and snapshots of a batch."""
    if is_control(header):
        return []
    found = []
    try:
        for record in records(batch):
            headers = dict(record.headers)
            version = _number(headers.get(AGGREGATE_VERSION))
            snapshot_version = _number(headers.get(SNAPSHOT_VERSION))
            if record.key is not None and (version or snapshot_version):
                key = bytes(record.key)
                found.append(_Found(key, record.offset, version, snapshot_version))
    except UNREADABLE as error:
        offset = header.base_offset
        _log.warning("batch not read for its streams: offset=%d error=%s", offset, error)
    return found


def _number(value: bytes | None) -> int:
    return int(value) if value is not None and value.isdigit() else 0
