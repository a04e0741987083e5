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


async def parts(log: Log, start: int, end: int) -> AsyncIterator[Part]:
    """Yield the parts of a log from an offset up to an end, at which a batch begins.

    The loop serves others in between. A batch that cannot be read is skipped with a warning: its
    streams miss an event, which reading them finds out. Raises StorageError when the log goes
    offline.
    """
    part = Part({}, {}, start)
    count = 0
    async for header, batch in _batches(log, start, end):
        try:
            count += _take(part, header, batch)
        except UNREADABLE as error:
            offset = header.base_offset
            _log.warning("batch not read for its streams: offset=%d error=%s", offset, error)
        if count >= EVENTS_RECENT_MAX:
            yield part._replace(end=header.last_offset + 1)
            part, count = Part({}, {}, start), 0
    yield part._replace(end=end)


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


def _take(part: Part, header: BatchHeader, batch: bytes) -> int:
    """Add what a batch has; return how many records that are."""
    if is_control(header):
        return 0
    count = 0
    for record in records(batch):
        headers = dict(record.headers)
        key = record.key
        if key is None:
            continue
        version = _number(headers.get(AGGREGATE_VERSION))
        snapshot_version = _number(headers.get(SNAPSHOT_VERSION))
        if snapshot_version:
            part.snapshots[bytes(key)] = Snapshot(snapshot_version, record.offset)
        elif version:
            events = part.events.setdefault(bytes(key), [version - 1])
            if events[0] + len(events) != version:
                text = "event out of order: key=%r version=%d offset=%d follows=%d"
                _log.warning(text, key, version, record.offset, events[0] + len(events) - 1)
                continue
            events.append(record.offset)
        count += 1
    return count


def _number(value: bytes | None) -> int:
    return int(value) if value is not None and value.isdigit() else 0
