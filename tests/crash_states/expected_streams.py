"""What the clients of streams know, what a log says of its streams, and what must agree with it."""

import asyncio
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any, NamedTuple

from broker._native.log.partition_log import PartitionLog
from broker._native.protocols.cursus.batch import AGGREGATE_VERSION, SNAPSHOT_VERSION
from broker.codec import records
from broker.model.errors import PolylogError
from broker.protocols.cursus.event_streams.file import Found, Snapshot
from broker.protocols.cursus.event_streams.partition_streams import PartitionStreams
from tests.crash_states.broker_run import place_of
from tests.crash_states.expected_state import Place
from tests.crash_states.finding import Finding

MANY = 10_000
UNKNOWN = b"a key without a stream"
LOST_EVENT = "an acknowledged event is lost"
VERSIONS = "the versions of a stream in its log are not 1, 2, 3, ..."
WRONG_VERSION = "a stream has another version than its log says"
WRONG_EVENTS = "the events of a stream, or its snapshot, are not found where its log has them"


class Event(NamedTuple):
    """An event that was passed to a log, or a snapshot."""

    key: bytes
    version: int
    offset: int
    is_snapshot: bool = False


class ExpectedStreams:
    """What clients know."""

    def __init__(self) -> None:
        self.sent: dict[Place, list[Event]] = {}  # in the order of their offsets
        self.acknowledged: dict[Place, int] = {}  # up to which offset
        self.durable: dict[Place, int] = {}
        self.group_commits: set[Place] = set()

    def copy(self) -> "ExpectedStreams":
        other = copy(self)
        other.sent = {place: list(sent) for place, sent in self.sent.items()}
        other.acknowledged, other.durable = dict(self.acknowledged), dict(self.durable)
        other.group_commits = set(self.group_commits)
        return other

    def made(self, place: Place, word: str) -> None:
        """A partition was made."""
        self.sent.setdefault(place, [])
        if word == "group-commit":
            self.group_commits.add(place)

    def sending(self, place: Place, event: Event) -> None:
        """It is about to be appended."""
        self.sent[place].append(event)

    def told(self, place: Place, end: int) -> None:
        """Everything below that offset was acknowledged."""
        self.acknowledged[place] = max(self.acknowledged.get(place, 0), end)

    def written(self, place: Place, durable_end: int) -> None:
        """Everything below that offset is on the disk."""
        self.durable[place] = max(self.durable.get(place, 0), durable_end)

    def recovered(self, place: Place, end: int) -> None:
        """A start serves a log that ends here: what came behind is lost for good."""
        self.sent[place] = [each for each in self.sent[place] if each.offset < end]

    def power_cut(self) -> None:
        """What only the page cache had is no longer guaranteed."""
        for place, end in self.acknowledged.items():
            if place not in self.group_commits:
                self.acknowledged[place] = min(end, self.durable.get(place, 0))


class LogStreams(NamedTuple):
    """What a log says of its streams."""

    events: dict[bytes, list[Event]]
    snapshots: dict[bytes, Snapshot]


def streams_in(log: PartitionLog) -> LogStreams:
    """Read a whole log, one record after another."""
    found = LogStreams({}, {})
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        batches = log.read(offset, 1 << 20)
        assert batches, f"{log!r} is not readable at {offset}"
        for record in records(batches):
            headers: dict[bytes, Any] = dict(record.headers)
            key = bytes(record.key or b"")
            if AGGREGATE_VERSION in headers:
                version = int(headers[AGGREGATE_VERSION])
                found.events.setdefault(key, []).append(Event(key, version, record.offset))
            elif SNAPSHOT_VERSION in headers:
                found.snapshots[key] = Snapshot(int(headers[SNAPSHOT_VERSION]), record.offset)
            offset = record.offset + 1
    return found


def log_findings(log: PartitionLog, expected: ExpectedStreams) -> Iterator[Finding]:
    """Yield what a log lacks, or has in another order than that of its versions."""
    found = streams_in(log)
    place = place_of(log)
    there = {each for events in found.events.values() for each in events}
    there |= {Event(key, *each, is_snapshot=True) for key, each in found.snapshots.items()}
    older = {key: each.offset for key, each in found.snapshots.items()}
    for event in expected.sent.get(place, ()):
        is_replaced = event.is_snapshot and event.offset < older.get(event.key, 0)
        if event.offset < expected.acknowledged.get(place, 0) and not (
            event in there or is_replaced
        ):
            yield Finding(LOST_EVENT, f"{event}")
    for key, events in found.events.items():
        versions = [each.version for each in events]
        if versions != [*range(1, len(events) + 1)]:
            yield Finding(VERSIONS, f"{key!r}: {versions}")


async def stream_findings(
    streams: PartitionStreams, log: PartitionLog, keys: Iterable[bytes]
) -> list[Finding]:
    """Return where the answers about streams differ from what the log says."""
    found = streams_in(log)
    findings = []
    asked = [*keys, UNKNOWN]
    try:
        versions = await asyncio.gather(*map(streams.version, asked))
        for key, version in zip(asked, versions, strict=True):
            offsets = [each.offset for each in found.events.get(key, ())]
            if version != len(offsets):
                findings.append(Finding(WRONG_VERSION, f"{key!r}: {version}, not {len(offsets)}"))
            snapshot = found.snapshots.get(key)
            if snapshot is None:
                wanted = Found(1, offsets, None)
            else:
                wanted = Found(snapshot.version + 1, offsets[snapshot.version :], snapshot)
            answer = await streams.find(key, 1, MANY)
            if answer != wanted:
                findings.append(Finding(WRONG_EVENTS, f"{key!r}: {answer}, not {wanted}"))
    except PolylogError as error:
        findings.append(Finding(WRONG_EVENTS, f"{error!r}"))
    return findings
