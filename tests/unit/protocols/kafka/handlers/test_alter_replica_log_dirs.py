"""AlterReplicaLogDirs (KIP-113): what is answered, and which moves begin."""

from pathlib import Path
from typing import Any, cast

import pytest

from broker.model.errors import StorageError
from broker.storage.directories import Directories
from tests.support.fakes import FakeBroker

ALTER_DIRS = 34


class FakeMoves:
    """Notes what was asked of it; a directory called `full` takes nothing."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Path]] = []

    async def ask(self, _topic: object, log: Any, directory: Path) -> None:
        if directory.name == "full":
            raise StorageError("no space")
        self.asked.append((log.partition, directory))


def test_a_partition_of_a_broker_with_one_directory_stays_there() -> None:
    broker = FakeBroker()
    broker.create("a", 2)
    own = str(broker.broker.config.data_dir)
    dirs = [
        {"path": own, "topics": [{"name": "a", "partitions": [0, 1, 2]}]},
        {"path": "/elsewhere", "topics": [{"name": "a", "partitions": [0]}]},
        {"path": own, "topics": [{"name": "b", "partitions": [0]}]},
    ]

    results = broker.ask(ALTER_DIRS, 2, dirs=dirs)["results"]

    codes = {
        each["topic_name"]: [(p["partition_index"], p["error_code"]) for p in each["partitions"]]
        for each in results
    }
    assert codes == {"a": [(0, 0), (1, 0), (2, 3), (0, 57)], "b": [(0, 3)]}


def moving_codes(broker: FakeBroker, name: str, path: Path, *partitions: int) -> list[int]:
    """Ask for moves of partitions to a directory; return the error codes."""
    dirs = [{"path": str(path), "topics": [{"name": name, "partitions": [*partitions]}]}]
    [answered] = broker.ask(ALTER_DIRS, 2, dirs=dirs)["results"]
    return [each["error_code"] for each in answered["partitions"]]


@pytest.fixture
def moves(tmp_path: Path) -> tuple[FakeBroker, FakeMoves]:
    """A broker with three directories, and a topic with two partitions in the first one."""
    broker, moves = FakeBroker(), FakeMoves()
    broker.create("a", 2)
    for name in ("own", "more", "full"):
        (tmp_path / name).mkdir()
    directories = Directories(
        tmp_path / "own", [tmp_path / "more", tmp_path / "full"], {tmp_path / "lost": "it is gone"}
    )
    broker.session.broker = broker.broker._replace(
        more_directories=directories, moves=cast("Any", moves)
    )
    for number in range(2):
        broker.log("a", number).folder = str(tmp_path / "own" / f"a-{number}")
    return broker, moves


def test_partitions_begin_to_move_to_other_directories(
    moves: tuple[FakeBroker, FakeMoves], tmp_path: Path
) -> None:
    broker, asked = moves

    assert moving_codes(broker, "a", tmp_path / "more", 0, 1) == [0, 0]
    assert moving_codes(broker, "a", tmp_path / "own", 0) == [0]

    assert asked.asked == [
        (0, tmp_path / "more"),
        (1, tmp_path / "more"),
        (0, tmp_path / "own"),
    ]


def test_a_move_to_a_directory_that_cannot_take_it_is_refused(
    moves: tuple[FakeBroker, FakeMoves], tmp_path: Path
) -> None:
    broker, asked = moves

    assert moving_codes(broker, "a", tmp_path / "lost", 0) == [56]
    assert moving_codes(broker, "a", tmp_path / "full", 0) == [56]
    assert moving_codes(broker, "a", tmp_path / "elsewhere", 0) == [57]
    assert moving_codes(broker, "t" * 249, tmp_path / "more", 0) == [17]
    broker.log("a", 1).is_offline = True
    assert moving_codes(broker, "a", tmp_path / "more", 1) == [56]
    assert asked.asked == []


def test_the_directory_of_a_partition_that_does_not_exist_yet_is_remembered(
    moves: tuple[FakeBroker, FakeMoves], tmp_path: Path
) -> None:
    broker, _ = moves
    directories = broker.session.broker.directories

    assert moving_codes(broker, "b", tmp_path / "more", 0, 1, -1) == [3, 3, 3]
    assert moving_codes(broker, "a", tmp_path / "more", 2) == [3]

    more = tmp_path / "more"
    made = [directories.folder(name, bytes(16), is_new=True) for name in ("b-0", "b-1", "a-2")]
    assert made == [more / "b-0", more / "b-1", more / "a-2"]


def test_a_partition_that_this_broker_follows_moves(
    moves: tuple[FakeBroker, FakeMoves], tmp_path: Path
) -> None:
    broker, asked = moves
    topic = broker.broker.topics.get("a")
    assert topic is not None
    topic.followed[1] = broker.log("a", 1)
    topic.logs[1] = None

    assert moving_codes(broker, "a", tmp_path / "more", 1) == [0]
    assert asked.asked == [(1, tmp_path / "more")]


def test_a_partition_whose_replica_another_broker_has_is_not_available(
    moves: tuple[FakeBroker, FakeMoves], tmp_path: Path
) -> None:
    broker, _ = moves
    topic = broker.broker.topics.get("a")
    assert topic is not None
    topic.logs = [topic.logs[0], None]

    assert moving_codes(broker, "a", tmp_path / "more", 1) == [9]
