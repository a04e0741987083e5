"""The manifest of a snapshot: its files, and up to where they may be read.

    DIR/manifest.json
    DIR/TOPIC-PARTITION/<base offset>.log .index .timeindex .txnindex, leader-epoch-checkpoint,
                        partition.metadata    hard links to the broker's files

    {"version": 1, "cluster": "127.0.0.1:9092", "created_ms": 1700000000000, "partitions": [
      {"topic": "clicks", "topic_id": "<32 hexadecimal digits>", "partition": 0,
       "start_offset": 0, "high_watermark": 500, "last_stable_offset": 500, "leader_epoch": 0,
       "segments": [{"base_offset": 0, "end_offset": 500, "end_position": 51234,
                     "size": 65536, "xxh3_64": "<16 hexadecimal digits>"}]}]}

End offsets are exclusive: the high watermark is the next offset. A segment's bytes up to
end_position belong to the snapshot, and xxh3_64 is their hash. end_offset is the offset after their
last batch; it is less than the next segment's base offset if compaction has removed the last ones.
`size` is that of the file, with bytes that the broker has reserved or written after end_position.
The manifest is written last: a folder without one is not a snapshot.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from broker._native.kernel import file_ops
from broker.model.errors import Corrupt, Unsupported
from broker.model.limits import MANIFEST_BYTES_MAX

FILE_NAME: Final = "manifest.json"
_VERSION: Final = 1
_OFFSET_END: Final = 1 << 63


class SegmentEntry(NamedTuple):
    """One segment of a snapshot; see the docstring of this module."""

    base_offset: int
    end_offset: int
    end_position: int
    size: int
    xxh3_64: str


class PartitionEntry(NamedTuple):
    """One partition of a snapshot."""

    topic: str
    topic_id: str
    partition: int
    start_offset: int
    high_watermark: int
    last_stable_offset: int
    leader_epoch: int
    segments: tuple[SegmentEntry, ...]

    @property
    def folder(self) -> str:
        """The name of the partition's folder."""
        return f"{self.topic}-{self.partition}"


class Manifest(NamedTuple):
    """A snapshot: its cluster, time and partitions."""

    cluster: str
    created_ms: int
    partitions: tuple[PartitionEntry, ...]


def write(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a folder durably; raise StorageError if the disk fails."""
    partitions = [
        each._asdict() | {"segments": [segment._asdict() for segment in each.segments]}
        for each in manifest.partitions
    ]
    content = {"version": _VERSION} | manifest._asdict() | {"partitions": partitions}
    file_ops.write_file_atomic(folder / FILE_NAME, json.dumps(content, indent=1).encode())


def read(folder: Path) -> Manifest:
    """Return the manifest of a snapshot.

    Raises:
        FileNotFoundError: the folder has none.
        Corrupt: it is damaged.
        Unsupported: it has a later version.
    """
    file = folder / FILE_NAME
    size = file_ops.size(file)
    if size > MANIFEST_BYTES_MAX:
        raise Corrupt(f"{file}: {size} bytes, expected at most {MANIFEST_BYTES_MAX}")
    try:
        content = json.loads(file_ops.read_file(file))
        version = content["version"]
        if version != _VERSION:
            raise Unsupported(f"{file}: version {version!r}, expected {_VERSION}")
        partitions = tuple(map(_partition, content["partitions"]))
        return Manifest(**_fields(content, Manifest), partitions=partitions)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(f"{file}: {type(error).__name__} {error}") from None


def _partition(found: Mapping[str, Any]) -> PartitionEntry:
    segments = tuple(SegmentEntry(**_fields(each, SegmentEntry)) for each in found["segments"])
    entry = PartitionEntry(**_fields(found, PartitionEntry), segments=segments)
    if "/" in entry.topic or entry.topic in {"", ".", ".."}:
        raise ValueError(f"{entry.topic!r} is not a topic name")
    bases = [each.base_offset for each in segments]
    if sorted(set(bases)) != bases:
        raise ValueError(f"segments of {entry.folder} do not ascend")
    return entry


def _fields(found: Mapping[str, Any], kind: type[NamedTuple]) -> dict[str, Any]:
    """Return the texts and numbers of an entry, which must have the types of its fields."""
    fields: dict[str, Any] = {}
    for name, expected in kind.__annotations__.items():
        if expected not in {int, str}:
            continue
        value = fields[name] = found[name]
        least = -1 if name == "leader_epoch" else 0
        if type(value) is not expected:
            raise TypeError(f"{name} is {value!r}, expected {expected.__name__}")
        if expected is int and not least <= value < _OFFSET_END:
            raise ValueError(f"{name} is {value!r}, expected a number from {least}")
    return fields
