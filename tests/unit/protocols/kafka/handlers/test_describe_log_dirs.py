"""DescribeLogDirs (KIP-113, KIP-827)."""

from pathlib import Path
from typing import Any

import pytest

from broker.storage.directories import Directories
from tests.support.fakes import FakeBroker, batch, only


@pytest.fixture
def broker(tmp_path: Path) -> FakeBroker:
    """Topics "a" with a batch in partition 1, and "b"."""
    broker = FakeBroker({"log.dirs": str(tmp_path)})
    broker.create("a", 2)
    broker.create("b")
    broker.log("a", 1).append(batch())
    return broker


def describe(broker: FakeBroker, topics: Any, version: int = 4) -> dict[str, Any]:
    answer = broker.ask(35, version, topics=topics)
    assert answer.get("error_code", 0) == 0
    return only(answer["results"])


def sizes(directory: dict[str, Any]) -> dict[str, list[tuple[int, int]]]:
    return {
        topic["name"]: [
            (each["partition_index"], each["partition_size"]) for each in topic["partitions"]
        ]
        for topic in directory["topics"]
    }


@pytest.mark.parametrize("version", range(6))
def test_null_describes_every_partition(broker: FakeBroker, tmp_path: Path, version: int) -> None:
    directory = describe(broker, None, version)

    assert (directory["error_code"], directory["log_dir"]) == (0, str(tmp_path))
    assert sizes(directory) == {"a": [(0, 0), (1, len(batch()))], "b": [(0, 0)]}
    partitions = [each for topic in directory["topics"] for each in topic["partitions"]]
    assert {(each["offset_lag"], each["is_future_key"]) for each in partitions} == {(0, False)}


def test_only_requested_and_existing_partitions_are_described(broker: FakeBroker) -> None:
    topics = [
        {"topic": "a", "partitions": [1, 7]},
        {"topic": "nowhere", "partitions": [0]},
        {"topic": "b", "partitions": []},
        {"topic": "a", "partitions": [1, 0]},
    ]

    assert sizes(describe(broker, topics)) == {"a": [(0, 0), (1, len(batch()))]}


def test_version_4_returns_the_space_of_the_disk(broker: FakeBroker) -> None:
    directory = describe(broker, [])

    assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
    assert directory["topics"] == []


def test_version_5_returns_that_the_directory_is_not_cordoned(broker: FakeBroker) -> None:
    assert describe(broker, [], 5)["is_cordoned"] is False


def test_a_missing_directory_is_a_storage_error(tmp_path: Path) -> None:
    broker = FakeBroker({"log.dirs": str(tmp_path / "gone")})

    directory = describe(broker, None)

    assert (directory["error_code"], directory["topics"]) == (56, [])


def test_each_directory_has_its_partitions_and_a_missing_one_an_error(
    broker: FakeBroker, tmp_path: Path
) -> None:
    more, missing = tmp_path / "more", tmp_path / "missing"
    more.mkdir()
    broker.session.broker = broker.broker._replace(
        more_directories=Directories(tmp_path, [more], {missing: "it is gone"})
    )
    broker.log("a", 0).folder = str(tmp_path / "a-0")
    broker.log("a", 1).folder = str(more / "a-1")
    broker.log("b", 0).folder = str(missing / "b-0")

    results = broker.ask(35, 4, topics=None)["results"]

    assert [(each["log_dir"], each["error_code"], sizes(each)) for each in results] == [
        (str(tmp_path), 0, {"a": [(0, 0)]}),
        (str(more), 0, {"a": [(1, len(batch()))]}),
        (str(missing), 56, {}),
    ]
    assert results[1]["total_bytes"] > 0


def test_a_directory_that_has_failed_has_an_error(broker: FakeBroker, tmp_path: Path) -> None:
    directories = Directories(tmp_path, [tmp_path / "more"])
    broker.session.broker = broker.broker._replace(more_directories=directories)
    broker.log("a", 0).folder = str(tmp_path / "a-0")
    broker.log("a", 1).folder = str(tmp_path / "more" / "a-1")
    (tmp_path / "more").mkdir()

    directories.check([tmp_path / "more" / "a-1"])

    results = broker.ask(35, 4, topics=None)["results"]
    assert [(each["log_dir"], each["error_code"], [*sizes(each)]) for each in results] == [
        (str(tmp_path), 0, ["a"]),
        (str(tmp_path / "more"), 56, []),
    ]
