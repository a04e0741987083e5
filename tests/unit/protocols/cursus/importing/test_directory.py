"""Data directories of the original Cursus: what is found in them, and what of it is damaged."""

import json
from pathlib import Path

import pytest

from broker.protocols.cursus.importing import directory
from broker.protocols.cursus.importing.directory import Policy, StoredSnapshot, TimedRecord
from broker.protocols.importing.report import Damage, Partition
from tests.support.cursus_directories import TIME_MS, Stored, manifest, segment, snapshots

PLACE = Partition("t", 0)


def read(*files: Path) -> list[TimedRecord | Damage]:
    return list(directory.read_records(PLACE, files))


def payloads(found: list[TimedRecord | Damage]) -> list[bytes]:
    return [each.record.payload for each in found if isinstance(each, TimedRecord)]


def test_segments_are_ordered_by_their_first_offsets(tmp_path: Path) -> None:
    second = segment(tmp_path, "t", 0, 10, [Stored(b"b")])
    second = second.rename(second.with_name("partition_0_segment_10.log"))
    first = segment(tmp_path, "t", 0, 9, [Stored(b"a")])
    first = first.rename(first.with_name("partition_0_segment_9.log"))
    other = segment(tmp_path, "t", 12, 0, [])
    (tmp_path / "t" / "partition_0_segment_0.log.deleted").touch()
    (tmp_path / "t" / "partition_0_segment_00000000000000000009.log.compacted-17").touch()
    kept = snapshots(tmp_path, "t", 12)

    found = directory.find(tmp_path)

    assert list(found.segments.items()) == [(PLACE, [first, second]), (Partition("t", 12), [other])]
    assert found.snapshots == {Partition("t", 12): kept}
    assert found.policies == {}


def test_the_manifest_has_topics_and_their_settings(tmp_path: Path) -> None:
    manifest(
        tmp_path,
        a={"partitions": 3, "idempotent": True, "policy": {"cleanup_policy": "compact"}},
        b={"event_sourcing": True, "policy": {"auth_policy": "acl", "partitioner": "round_robin"}},
    )

    assert directory.find(tmp_path).policies == {
        "a": Policy(3, is_idempotent=True, cleanup="compact"),
        "b": Policy(1, has_streams=True, partitioner="round_robin", access="acl"),
    }


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        json.dumps({"version": 2, "topics": []}),
        json.dumps({"version": 1, "topics": [{"name": "t"}]}),
    ],
)
def test_an_invalid_manifest_is_an_error(tmp_path: Path, text: str) -> None:
    (tmp_path / directory.MANIFEST).write_text(text)

    with pytest.raises(ValueError, match=r"Expecting|type|version|lacks"):
        directory.find(tmp_path)


def test_records_have_the_time_of_their_segment(tmp_path: Path) -> None:
    [record] = read(segment(tmp_path, "t", 0, 5, [Stored(b"a", b"k")]))

    assert isinstance(record, TimedRecord)
    assert record.timestamp_ms == TIME_MS
    assert (record.record.offset, record.record.key) == (5, b"k")


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"\0", "its write was interrupted"),
        (b"\0\0\0\5abcd", "its write was interrupted"),
        (b"\0\0\0\0", "no record has 0 bytes"),
        (b"\x7f\0\0\0" + bytes(100), "the rest of the file is not read"),
    ],
)
def test_what_cannot_be_a_record_ends_its_segment_only(
    tmp_path: Path, tail: bytes, reason: str
) -> None:
    first = segment(tmp_path, "t", 0, 0, [Stored(b"a")], tail=tail)
    second = segment(tmp_path, "t", 0, 1, [Stored(b"b")])

    found = read(first, second)

    assert payloads(found) == [b"a", b"b"]
    [damage] = [each for each in found if isinstance(each, Damage)]
    assert (damage.file, damage.position) == (first.name, first.stat().st_size - len(tail))
    assert reason in damage.reason


def test_a_damaged_record_does_not_hide_those_behind_it(tmp_path: Path) -> None:
    file = segment(tmp_path, "t", 0, 0, [Stored(b"a"), Stored(b"b"), Stored(b"c")])
    data = file.read_bytes()
    size = len(data) // 3
    file.write_bytes(data[:size] + data[size : size + 4] + b"\xff\xff" + data[size + 6 :])

    found = read(file)

    assert payloads(found) == [b"a", b"c"]
    [damage] = [each for each in found if isinstance(each, Damage)]
    assert damage == Damage(file.name, size, "the record is damaged: it ends in its topic")


def test_a_record_of_another_partition_is_damage(tmp_path: Path) -> None:
    file = segment(tmp_path, "t", 1, 0, [Stored(b"a")])

    [damage] = read(file)

    assert isinstance(damage, Damage)
    assert damage.reason == "the record is one of b't'-1"


def test_the_last_snapshot_of_a_key_counts(tmp_path: Path) -> None:
    file = snapshots(tmp_path, "t", 0, (b"k", 1, b"one"), (b"l", 1, b""), (b"k", 2, b"two"))

    assert directory.read_snapshots(file) == (
        [StoredSnapshot(b"k", 2, b"two"), StoredSnapshot(b"l", 1, b"")],
        None,
    )


@pytest.mark.parametrize("left", range(1, 17))
def test_an_incomplete_snapshot_is_reported(tmp_path: Path, left: int) -> None:
    file = snapshots(tmp_path, "t", 0, (b"k", 1, b"one"))
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:left])

    found, damage = directory.read_snapshots(file)

    assert found == [StoredSnapshot(b"k", 1, b"one")]
    assert damage is not None
    assert damage.position == len(whole)
