"""ListOffsets v0: the base offsets of segments (KIP-79 replaced it)."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes import NOW_MS, FakeBroker, batch, only

LATEST, EARLIEST = -1, -2


@pytest.fixture
def broker() -> FakeBroker:
    """Segments of 10 offsets with newest records at 100, 200, 300; the end is 25."""
    broker = FakeBroker()
    broker.create("a", 2)
    log = broker.log("a")
    log.append(batch(25))
    log.segment_entries = [(0, 500, 100), (10, 500, 200), (20, 250, 300)]
    return broker


def find(
    broker: FakeBroker, timestamp: int, count: int = 100, partition: int = 0
) -> dict[str, Any]:
    wanted = {
        "partition_index": partition, "timestamp": timestamp, "max_num_offsets": count,
    }  # fmt: skip
    topics = [{"name": "a", "partitions": [wanted]}]
    answer = broker.ask(2, 0, replica_id=-1, topics=topics)
    return only(only(answer["topics"])["partitions"])


def offsets(broker: FakeBroker, timestamp: int, count: int = 100) -> list[int]:
    answer = find(broker, timestamp, count)
    assert answer["error_code"] == 0
    found: list[int] = answer["old_style_offsets"]
    return found


@pytest.mark.parametrize(
    ("timestamp", "found"),
    [
        (LATEST, [25, 20, 10, 0]),
        (EARLIEST, [0]),
        (99, []),
        (100, [0]),
        (299, [10, 0]),
        (300, [20, 10, 0]),
        (NOW_MS, [25, 20, 10, 0]),
        (-3, []),
    ],
)
def test_segments_up_to_the_timestamp_are_listed_newest_first(
    broker: FakeBroker, timestamp: int, found: list[int]
) -> None:
    assert offsets(broker, timestamp) == found


@pytest.mark.parametrize(("count", "found"), [(1, [25]), (2, [25, 20]), (0, []), (-1, [])])
def test_no_more_offsets_are_listed_than_requested(
    broker: FakeBroker, count: int, found: list[int]
) -> None:
    assert offsets(broker, LATEST, count) == found


def test_the_list_begins_with_the_high_watermark_and_ends_with_the_log_start(
    broker: FakeBroker,
) -> None:
    log = broker.log("a")
    log.high_watermark = 15
    log.log_start_offset = 4

    assert offsets(broker, LATEST) == [15, 10, 4]
    assert offsets(broker, EARLIEST) == [4]


def test_an_empty_log_has_one_offset(broker: FakeBroker) -> None:
    broker.log("a").batches = []
    broker.log("a").high_watermark = 0
    broker.log("a").segment_entries = [(0, 0, 100)]

    assert offsets(broker, LATEST) == [0]
    assert offsets(broker, EARLIEST) == [0]
    assert offsets(broker, NOW_MS) == [0]


def test_a_segment_without_timestamps_has_the_age_of_its_file(
    broker: FakeBroker, tmp_path: Path
) -> None:
    log = broker.log("a")
    log.folder = str(tmp_path)
    log.segment_entries = [(0, 500, -1), (10, 500, -1), (20, 250, 300_000)]
    for base_offset, seconds in ((0, 100), (10, 200)):
        file = tmp_path / f"{base_offset:020d}.log"
        file.touch()
        os.utime(file, (seconds, seconds))

    assert offsets(broker, 150_000) == [0]
    assert offsets(broker, 200_000) == [10, 0]
    assert offsets(broker, 300_000) == [20, 10, 0]


def test_a_segment_deleted_by_retention_meanwhile_makes_the_client_retry(
    broker: FakeBroker, tmp_path: Path
) -> None:
    broker.log("a").folder = str(tmp_path)
    broker.log("a").segment_entries = [(0, 500, -1)]

    assert find(broker, 150_000)["error_code"] == 6


def test_errors_are_known_to_old_clients_and_have_no_offsets(broker: FakeBroker) -> None:
    broker.log("a", 1).fail()

    for partition, code in ((1, 6), (2, 3)):
        answer = find(broker, LATEST, partition=partition)
        assert (answer["error_code"], answer["old_style_offsets"]) == (code, [])
