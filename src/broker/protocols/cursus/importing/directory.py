"""Reading of a data directory of the original Cursus.

    __topic_metadata.json                           topics and their policies
    TOPIC/partition_N_segment_BASE.log              u32 length, record (stored.py), and so on
    TOPIC/partition_N_segment_BASE.log.deleted      removed by retention: not read
    TOPIC/**/partition_N_snapshots.dat              snapshots of streams, the last of a key counts
    __consumer_offsets/partition_N_segment_BASE.log likewise, what groups have committed

Records have no time: they get that of their segment's last write. A damaged record is reported with
its file and position. Lengths have no checksum: after one that cannot be, the rest of its segment
is lost. The server must not write meanwhile.
"""

import json
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

from broker.model.limits import MIB
from broker.protocols.cursus.importing import stored
from broker.protocols.cursus.importing.stored import StoredRecord
from broker.protocols.importing.report import Damage, Partition

MANIFEST: Final = "__topic_metadata.json"
OFFSETS_TOPIC: Final = "__consumer_offsets"
_SEGMENT: Final = re.compile(r"partition_([0-9]{1,9})_segment_([0-9]{1,20})\.log")
_SNAPSHOTS: Final = re.compile(r"partition_([0-9]{1,9})_snapshots\.dat")
_VERSION: Final = 1
# Its limit is 16 MiB, and has been 64 MiB.
_RECORD_BYTES_MAX: Final = 64 * MIB
_MANIFEST_BYTES_MAX: Final = 16 * MIB
_LENGTH_BYTES: Final = 4
_SNAPSHOT_HEAD: Final = struct.Struct(">QI")  # version, length of the payload


class Policy(NamedTuple):
    """What the manifest says of a topic."""

    partitions: int = 0
    is_idempotent: bool = False
    has_streams: bool = False
    cleanup: str = "delete"
    partitioner: str = "hash_key"
    access: str = "open"


class Found(NamedTuple):
    """The segments of each partition, in order; files of snapshots; the manifest's topics."""

    segments: Mapping[Partition, list[Path]]
    snapshots: Mapping[Partition, Path]
    policies: Mapping[str, Policy]


class TimedRecord(NamedTuple):
    """A record and when its segment was written last."""

    record: StoredRecord
    timestamp_ms: int


class StoredSnapshot(NamedTuple):
    """A snapshot of a stream."""

    key: bytes
    version: int
    payload: bytes


def find(folder: Path) -> Found:
    """Return what is in a directory.

    Raises:
        OSError: it cannot be read.
        ValueError: its manifest is invalid.
    """
    numbered: dict[Partition, list[tuple[int, Path]]] = {}
    snapshots: dict[Partition, Path] = {}
    for topic in sorted(each for each in folder.iterdir() if each.is_dir()):
        for file in sorted(topic.rglob("partition_*")):
            if match := _SEGMENT.fullmatch(file.name):
                place = Partition(topic.name, int(match[1]))
                numbered.setdefault(place, []).append((int(match[2]), file))
            elif match := _SNAPSHOTS.fullmatch(file.name):
                snapshots[Partition(topic.name, int(match[1]))] = file
    segments = {place: [file for _, file in sorted(numbered[place])] for place in sorted(numbered)}
    return Found(segments, snapshots, _policies(folder / MANIFEST))


def _policies(file: Path) -> dict[str, Policy]:
    """Return the topics of a manifest, none if there is none."""
    try:
        with file.open("rb") as stream:
            data = stream.read(_MANIFEST_BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    try:
        found = json.loads(data)
        if found["version"] != _VERSION:
            raise ValueError(f"its version is {found['version']}, {_VERSION} is known")
        return {str(each["name"]): _policy(each) for each in found["topics"]}
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"it lacks a field, or one has another type: {error}") from None


def _policy(topic: Mapping[str, Any]) -> Policy:
    policy = topic.get("policy") or {}
    return Policy(
        int(topic["partitions"]),
        bool(topic.get("idempotent")),
        bool(topic.get("event_sourcing")),
        str(policy.get("cleanup_policy") or Policy().cleanup),
        str(policy.get("partitioner") or Policy().partitioner),
        str(policy.get("auth_policy") or Policy().access),
    )


# ---- records -------------------------------------------------------------------------------------


def read_records(place: Partition, files: Iterable[Path]) -> Iterator[TimedRecord | Damage]:
    """Yield every record of a partition's segments, in order; raise OSError."""
    for file in files:
        with file.open("rb") as stream:
            timestamp_ms = os.fstat(stream.fileno()).st_mtime_ns // 1_000_000
            for position, data in _frames(stream):
                read = data if isinstance(data, str) else _record(place, data)
                if isinstance(read, str):
                    yield Damage(file.name, position, read)
                else:
                    yield TimedRecord(read, timestamp_ms)


def _frames(stream: BinaryIO) -> Iterator[tuple[int, bytes | str]]:
    """Yield the position of each record, and its bytes, or why nothing more can be read."""
    position = 0
    while head := stream.read(_LENGTH_BYTES):
        size = int.from_bytes(head, "big")
        if len(head) < _LENGTH_BYTES:
            yield position, "the record is incomplete: its write was interrupted"
            return
        if not 0 < size <= _RECORD_BYTES_MAX:
            yield position, f"no record has {size} bytes: the rest of the file is not read"
            return
        data = stream.read(size)
        if len(data) < size:
            yield position, "the record is incomplete: its write was interrupted"
            return
        yield position, data
        position += _LENGTH_BYTES + size


def _record(place: Partition, data: bytes) -> StoredRecord | str:
    try:
        record = stored.decode(data)
    except ValueError as error:
        return f"the record is damaged: {error}"
    if (record.topic, record.partition) != (place.topic.encode(), place.number):
        return f"the record is one of {record.topic!r}-{record.partition}"
    return record


# ---- snapshots of streams ------------------------------------------------------------------------


def read_snapshots(file: Path) -> tuple[list[StoredSnapshot], Damage | None]:
    """Return the last snapshot of each key, and what is damaged; raise OSError."""
    found: dict[bytes, StoredSnapshot] = {}
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        position = 0
        while position < size:
            snapshot = _snapshot(stream, size)
            if snapshot is None:
                reason = "the snapshot is incomplete: its write was interrupted"
                return list(found.values()), Damage(file.name, position, reason)
            found[snapshot.key] = snapshot
            position = stream.tell()
    return list(found.values()), None


def _snapshot(stream: BinaryIO, size: int) -> StoredSnapshot | None:
    key = stream.read(int.from_bytes(stream.read(2), "big"))
    head = stream.read(_SNAPSHOT_HEAD.size)
    if len(head) < _SNAPSHOT_HEAD.size:
        return None
    version, length = _SNAPSHOT_HEAD.unpack(head)
    if length > size - stream.tell():
        return None
    return StoredSnapshot(key, version, stream.read(length))
