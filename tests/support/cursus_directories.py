"""Data directories as the original Cursus leaves them, made from docs/protocols/cursus-files.md."""

import json
import os
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

TIME_MS = 1_790_000_000_000
LAYOUTS = ("plain", "event", "key", "transaction", "control", "identity")  # oldest first


class Stored(NamedTuple):
    """A record as the original stores it."""

    payload: bytes
    key: bytes = b""
    producer_id: bytes = b""
    sequence: int = 0
    epoch: int = 0
    event_type: bytes = b""
    schema_version: int = 0
    aggregate_version: int = 0
    metadata: bytes = b""
    transactional_id: bytes = b""
    state: bytes = b""
    marker: bytes = b""


def text(data: bytes) -> bytes:
    """Return a text of up to 64 KiB with its length."""
    return struct.pack(">H", len(data)) + data


def encode(topic: str, partition: int, offset: int, record: Stored, layout: str) -> bytes:
    """Return a record without its length, in the layout of one of LAYOUTS."""
    parts = [
        text(topic.encode()) + struct.pack(">IQ", partition, offset),
        text(record.producer_id) + struct.pack(">QQ", record.sequence, record.epoch),
        struct.pack(">I", len(record.payload)) + record.payload,
    ]
    newer = [
        text(record.event_type)
        + struct.pack(">IQ", record.schema_version, record.aggregate_version)
        + text(record.metadata),
        text(record.key),
        text(record.transactional_id) + text(record.state) + text(record.marker),
        text(b"transaction" if record.marker else b"")
        + struct.pack(">HQ", 2 if record.marker else 0, 0)
        + text(b"")
        + text(b""),
        text(b"event") + text(b"digest"),
    ]
    return b"".join(parts + newer[: LAYOUTS.index(layout)])


def segment(
    folder: Path,
    topic: str,
    partition: int,
    first: int,
    entries: Iterable[Stored | None],
    *,
    layout: str = "control",
    tail: bytes = b"",
) -> Path:
    """Write a segment; None is an offset that compaction has removed."""
    file = folder / topic / f"partition_{partition}_segment_{first:020}.log"
    file.parent.mkdir(exist_ok=True)
    with file.open("wb") as stream:
        for offset, record in enumerate(entries, first):
            if record is not None:
                body = encode(topic, partition, offset, record, layout)
                stream.write(struct.pack(">I", len(body)) + body)
        stream.write(tail)
    os.utime(file, (TIME_MS / 1000, TIME_MS / 1000))
    return file


def manifest(folder: Path, **topics: Mapping[str, Any]) -> None:
    """Write the manifest; of each topic its fields besides the name, and its policy's."""
    defined = [
        {
            "name": name,
            "partitions": 1,
            "idempotent": False,
            "event_sourcing": False,
            **{key: value for key, value in fields.items() if key != "policy"},
            "policy": {
                "cleanup_policy": "delete",
                "partitioner": "hash_key",
                "auth_policy": "open",
                **fields.get("policy", {}),
            },
        }
        for name, fields in topics.items()
    ]
    text = json.dumps({"version": 1, "topics": defined}, indent=2) + "\n"
    (folder / "__topic_metadata.json").write_text(text)


def snapshots(folder: Path, topic: str, partition: int, *entries: tuple[bytes, int, bytes]) -> Path:
    """Write a file of snapshots: key, version and payload of each."""
    file = folder / topic / f"partition_{partition}_snapshots.dat"
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(
        b"".join(
            text(key) + struct.pack(">QI", version, len(payload)) + payload
            for key, version, payload in entries
        )
    )
    return file


def journal(folder: Path, *transactions: Mapping[str, Any], tail: bytes = b"") -> Path:
    """Write the journal of transactions."""
    file = folder / "__transaction_state.journal"
    data = b""
    for each in transactions:
        payload = json.dumps({"version": 1, "transaction": each}).encode()
        data += struct.pack(">I", len(payload)) + payload + struct.pack(">I", crc32(payload))
    file.write_bytes(data + tail)
    return file


def transaction(name: str, state: str, epoch: int = 0, **offsets: int) -> dict[str, Any]:
    """Return a transaction of the journal that commits an offset of partition 0 of each topic."""
    return {
        "id": name,
        "producer": f"txn-{name}",
        "epoch": epoch,
        "state": state,
        "offsets": [
            {"Topic": topic, "Group": "g", "Member": "m", "Partition": 0, "Offset": offset}
            for topic, offset in offsets.items()
        ],
        "created_at": "2026-08-13T00:00:00Z",
        "updated_at": "2026-08-13T00:00:00Z",
    }


def committed(
    group: str, topic: str, epoch: int, revision: int, offsets: Mapping[int, int]
) -> Stored:
    """Return a record of all offsets of a group in a topic."""
    return metadata(
        "offset_snapshot", group, epoch, topic=topic, revision=revision, **items(offsets)
    )


def items(offsets: Mapping[int, int]) -> dict[str, Any]:
    """Return offsets by partition as records have them."""
    return {"offsets": [{"partition": key, "offset": value} for key, value in offsets.items()]}


def metadata(kind: str, group: str, epoch: int, **fields: Any) -> Stored:
    """Return a versioned record of __consumer_offsets."""
    time = "2026-08-13T00:00:00Z"
    named = {"version": 1, "type": kind, "group": group, "epoch": epoch, "timestamp": time}
    return Stored(json.dumps(named | fields).encode(), b"cursus.consumer")
