"""Segments of V1's original server: which exist, and how their lines are parsed."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.protocols.importing.report import Damage, Partition
from broker.protocols.importing.target import ImportedRecord
from broker.protocols.v1.importing import directory
from broker.protocols.v1.importing.directory import find_segments, read_records
from tests.support.v1_directories import TIME_MS, line, segment


def test_segments_are_ordered_by_their_numbers(tmp_path: Path) -> None:
    second = segment(tmp_path, "orders", 0, 10, b"")
    first = segment(tmp_path, "orders", 0, 9, b"")
    other = segment(tmp_path, "a-1-segment-x", 12, 0, b"")

    found = find_segments(tmp_path)

    assert list(found.segments.items()) == [
        (Partition("a-1-segment-x", 12), [other]),
        (Partition("orders", 0), [first, second]),
    ]


def test_replica_copies_and_indexes_are_skipped(tmp_path: Path) -> None:
    for name in (
        "orders-0-replica-1-segment-000000.log",
        "orders-0-replica-2-segment-000000.log",
        "orders-0-offset.idx",
        "orders-0-time.idx",
        "groups.json",
        "orders-segment-000000.log",
    ):
        (tmp_path / name).write_bytes(b"")

    found = find_segments(tmp_path)

    assert (dict(found.segments), found.mirror_count) == ({}, 2)


def test_a_topic_whose_name_resembles_a_replica_copy_is_a_topic(tmp_path: Path) -> None:
    segment(tmp_path, "replica", 0, 0, b"")
    segment(tmp_path, "my-replica", 0, 0, b"")

    assert [each.topic for each in find_segments(tmp_path).segments] == ["my-replica", "replica"]


def test_every_record_of_every_segment_is_read_in_order(tmp_path: Path) -> None:
    files = [
        segment(tmp_path, "t", 0, 0, line(0, b"a|b") + line(1, b"")),
        segment(tmp_path, "t", 0, 1, line(2, "größe".encode())),
    ]

    assert list(read_records(files)) == [
        ImportedRecord(0, TIME_MS, b"a|b"),
        ImportedRecord(1, TIME_MS + 1_000, b""),
        ImportedRecord(2, TIME_MS + 2_000, "größe".encode()),
    ]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"\n", "not offset|"),
        (b"0|1|0\n", "not offset|"),
        (b"-1|1|00000000|\n", "not offset|"),
        (b"0|1|0000000G|\n", "not offset|"),
        (b"9999999999999999999999|1|00000000|\n", "not offset|"),
        (b"0|1|00000001|\n", "checksum"),
        (line(0, b"value")[:-3] + b"\n", "checksum"),
        (line(0, b"x" * 200), "longer than 100 bytes"),
    ],
)
def test_a_damaged_line_is_reported_with_its_position_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: bytes, reason: str
) -> None:
    monkeypatch.setattr(directory, "V1_LINE_BYTES_MAX", 100)
    file = segment(tmp_path, "t", 0, 0, line(0, b"a") + bad + line(1, b"b"))

    first, damage, last = read_records([file])

    assert isinstance(damage, Damage)
    assert (damage.file, damage.position) == (file.name, 2)
    assert reason in damage.reason
    assert [each.value for each in (first, last) if isinstance(each, ImportedRecord)] == [
        b"a",
        b"b",
    ]


@pytest.mark.parametrize("cut", range(1, len(line(7, b"value"))))
def test_a_truncated_last_line_is_damage_at_every_length(tmp_path: Path, cut: int) -> None:
    file = segment(tmp_path, "t", 0, 0, line(6, b"whole") + line(7, b"value")[:cut])

    record, damage = read_records([file])

    assert isinstance(record, ImportedRecord)
    assert isinstance(damage, Damage)
    assert damage.position == 2


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_read_to_their_end(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    file = segment(tmp_path_factory.mktemp("v1"), "t", 0, 0, data)

    found = list(read_records([file]))

    assert len(found) == data.count(b"\n") + (not data.endswith(b"\n") and data != b"")
