"""A broker with several log.dirs: partitions on each disk, one of which is lost and comes back."""

import errno
import time
from pathlib import Path
from typing import Any, TypeVar

from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.faulty_broker import ALWAYS, CHECKPOINT_SECONDS, FaultyBroker
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

NONE, UNKNOWN_TOPIC_OR_PARTITION, STORAGE_ERROR, LOG_DIR_NOT_FOUND = 0, 3, 56, 57
PARTITIONS = 4
B = TypeVar("B", bound=BrokerProcess)
OPERATIONS = ("open", "write", "send", "sync_data", "sync", "sync_folder", "sync_filesystem")


def on_two_disks(broker: B) -> tuple[B, Path]:
    """Have a broker start with a second directory; return it, too."""
    data, more = str(broker.data_dir), broker.data_dir.parent / "more"
    broker.wrap = lambda command: [f"{data},{more}" if each == data else each for each in command]
    return broker, more


def directories(client: WireClient) -> dict[str, tuple[int, set[int]]]:
    """Return the error and the partitions of the topic "t" in each directory."""
    results = client.request("DescribeLogDirs", 4, {"topics": None})["results"]

    def partitions(result: dict[str, Any]) -> set[int]:
        return {
            each["partition_index"]
            for topic in result["topics"]
            if topic["name"] == "t"
            for each in topic["partitions"]
        }

    return {Path(each["log_dir"]).name: (each["error_code"], partitions(each)) for each in results}


def write_each(client: WireClient) -> list[int]:
    """Write a record to each partition; return the error codes."""
    body = wire_requests.produce_body("t", [(n, Batch().encode()) for n in range(PARTITIONS)])
    [topic] = client.request("Produce", wire_requests.PRODUCE_VERSION, body)["responses"]
    return [each["error_code"] for each in topic["partition_responses"]]


def test_a_lost_directory_leaves_the_others_serving_and_comes_back_with_its_records(
    tmp_path: Path,
) -> None:
    broker, more = on_two_disks(BrokerProcess(tmp_path))
    broker.start()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "t", partitions=PARTITIONS)
        assert write_each(client) == [NONE] * PARTITIONS
        found = directories(client)
    assert [code for code, _ in found.values()] == [NONE, NONE]
    (_, here), (_, there) = found["data"], found["more"]
    assert here
    assert there
    assert here | there == set(range(PARTITIONS))
    broker.kill()
    more.rename(tmp_path / "lost")
    more.write_text("no folder")

    broker.expected_complaints += ["directory is missing", "cannot be used", "offline"]
    broker.start()
    with WireClient(broker.address) as client:

        def settled() -> bool:
            return set(write_each(client)) <= {NONE, STORAGE_ERROR}

        wait_until(settled, "the logs are loaded")
        codes = write_each(client)
        assert {n for n, code in enumerate(codes) if code == NONE} == here
        assert directories(client) == {"data": (NONE, here), "more": (STORAGE_ERROR, set())}
        wire_requests.create_topic(client, "u", partitions=2)
    broker.kill()
    assert not list(broker.data_dir.glob(f"t-{min(there)}"))
    more.unlink()
    (tmp_path / "lost").rename(more)

    broker.start()
    with WireClient(broker.address) as client:
        wait_until(lambda: write_each(client) == [NONE] * PARTITIONS, "the logs are loaded")
        assert directories(client) == {"data": (NONE, here), "more": (NONE, there)}
        for partition in there:
            assert wire_requests.end_offset(client, "t", partition) >= 2
    assert broker.stop() == 0
    broker.check()


def test_a_disk_that_fails_takes_its_partitions_alone(tmp_path: Path) -> None:
    broker, more = on_two_disks(FaultyBroker(tmp_path))
    broker.start()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "t", partitions=PARTITIONS)
        assert write_each(client) == [NONE] * PARTITIONS
        (_, here), (_, there) = directories(client).values()
        for operation in OPERATIONS:
            broker.fail(operation, f"{more}*", errno.EIO, times=ALWAYS)
        wait_until(lambda: STORAGE_ERROR in write_each(client), "the disk has failed")

        def is_settled() -> bool:
            codes = write_each(client)
            return codes == [NONE if n in here else STORAGE_ERROR for n in range(PARTITIONS)]

        wait_until(is_settled, "its partitions are offline")
        made = {"topics": [{"name": "u", "num_partitions": 2, "replication_factor": 1}]}

        def is_made() -> bool:
            [answer] = client.request("CreateTopics", 5, {**made, "timeout_ms": 10_000})["topics"]
            assert answer["error_code"] in {NONE, STORAGE_ERROR}
            return bool(answer["error_code"] == NONE)

        wait_until(is_made, "a new topic is made on the other disk")
        ends = time.monotonic() + 5 * CHECKPOINT_SECONDS
        while time.monotonic() < ends:
            assert is_settled()
    broker.kill()
    healthy, _ = on_two_disks(BrokerProcess(tmp_path))
    healthy.start()
    with WireClient(healthy.address) as client:
        wait_until(lambda: write_each(client) == [NONE] * PARTITIONS, "the logs are loaded")
        for partition in there:
            assert wire_requests.end_offset(client, "t", partition) >= 2
    assert healthy.stop() == 0


def move(client: WireClient, partition: int, directory: Path, topic: str = "t") -> int:
    """Ask for a move; return the error code."""
    dirs = [{"path": str(directory), "topics": [{"name": topic, "partitions": [partition]}]}]
    [moved] = client.request("AlterReplicaLogDirs", 2, {"dirs": dirs})["results"]
    [answer] = moved["partitions"]
    return int(answer["error_code"])


def futures(client: WireClient) -> dict[str, tuple[int, int, int]]:
    """Return partition, size and lag of what moves into each directory."""
    results = client.request("DescribeLogDirs", 4, {"topics": None})["results"]
    return {
        Path(result["log_dir"]).name: (
            each["partition_index"],
            each["partition_size"],
            each["offset_lag"],
        )
        for result in results
        for topic in result["topics"]
        for each in topic["partitions"]
        if each["is_future_key"]
    }


def throttle(client: WireClient, rate: str, broker_id: int = 1) -> None:
    """Set the rate of a broker's moves."""
    config = {
        "name": "replica.alter.log.dirs.io.max.bytes.per.second",
        "config_operation": 0,
        "value": rate,
    }
    resource = {"resource_type": 4, "resource_name": str(broker_id), "configs": [config]}
    body = {"resources": [resource], "validate_only": False}
    [answer] = client.request("IncrementalAlterConfigs", 1, body)["responses"]
    assert answer["error_code"] == NONE


def test_a_partition_moves_while_it_is_written_and_after_a_kill(tmp_path: Path) -> None:
    broker, more = on_two_disks(BrokerProcess(tmp_path))
    broker.start()
    written = 0
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "t", partitions=PARTITIONS)
        (_, here), (_, there) = directories(client).values()
        moved, back = min(here), min(there)
        large = Batch([bytes(200_000)]).encode()
        for _ in range(16):
            wire_requests.produce(client, "t", large, partition=moved)
            written += 1
        assert move(client, moved, tmp_path / "elsewhere") == LOG_DIR_NOT_FOUND
        throttle(client, "100000")
        assert move(client, moved, more) == NONE
        assert move(client, moved, more) == NONE
        wait_until(lambda: futures(client)["more"][1] > 0, "it has begun")
        partition, _, lag = futures(client)["more"]
        assert partition == moved
        assert lag > 0
        assert move(client, moved, broker.data_dir) == NONE
        assert futures(client) == {}
        assert move(client, moved, more) == NONE
        wait_until(lambda: futures(client)["more"][1] > 0, "it has begun again")
    broker.kill()

    broker.start()
    with WireClient(broker.address) as client:
        wait_until(lambda: write_each(client) == [NONE] * PARTITIONS, "the logs are loaded")
        written += 1
        wait_until(lambda: "more" in futures(client), "the move goes on after a kill")
        throttle(client, "100000000")
        assert move(client, back, broker.data_dir) == NONE

        def is_moved() -> bool:
            wire_requests.produce(client, "t", large, partition=moved)
            nonlocal written
            written += 1
            return moved in directories(client)["more"][1] and not futures(client)

        wait_until(is_moved, "both have moved")
        assert back in directories(client)["data"][1]
        assert wire_requests.end_offset(client, "t", moved) == written
    broker.kill()

    broker.start()
    with WireClient(broker.address) as client:
        wait_until(lambda: write_each(client) == [NONE] * PARTITIONS, "the logs are loaded")
        assert wire_requests.end_offset(client, "t", moved) == written + 1
        assert moved in directories(client)["more"][1]
        wait_until(
            lambda: (
                {each.name for each in more.glob(f"t-{moved}*")} == {f"t-{moved}"}
                and not list(broker.data_dir.glob(f"t-{moved}*"))
            ),
            "nothing else is left",
        )
    assert broker.stop() == 0
    broker.check()


def test_a_partition_is_made_in_the_directory_that_was_asked_for_before(tmp_path: Path) -> None:
    broker, more = on_two_disks(BrokerProcess(tmp_path))
    broker.start()
    with WireClient(broker.address) as client:
        for partition in range(PARTITIONS):
            assert move(client, partition, more) == UNKNOWN_TOPIC_OR_PARTITION
        wire_requests.create_topic(client, "t", partitions=PARTITIONS)
        assert directories(client)["more"] == (NONE, set(range(PARTITIONS)))
    assert broker.stop() == 0
    broker.check()
