"""A broker with several log.dirs: partitions on each disk, one of which is lost and comes back."""

import errno
from pathlib import Path
from typing import Any

from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.faulty_broker import ALWAYS, FaultyBroker
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

NONE, STORAGE_ERROR = 0, 56
PARTITIONS = 4
OPERATIONS = (
    *("open", "write", "send", "sync_data", "sync", "sync_folder", "sync_filesystem"),
    *("make_folder", "rename", "remove"),
)


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
    broker = BrokerProcess(tmp_path)
    more = tmp_path / "more"
    data = str(broker.data_dir)
    broker.wrap = lambda command: [f"{data},{more}" if each == data else each for each in command]
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
    broker = FaultyBroker(tmp_path)
    more = tmp_path / "more"
    data = str(broker.data_dir)
    command = broker.command
    broker.command = lambda: [  # type: ignore[method-assign]
        f"{data},{more}" if each == data else each for each in command()
    ]
    broker.start()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "t", partitions=PARTITIONS)
        assert write_each(client) == [NONE] * PARTITIONS
        (_, here), (_, there) = directories(client).values()
        for operation in (
            "open",
            "write",
            "send",
            "sync_data",
            "sync",
            "sync_folder",
            "sync_filesystem",
        ):
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
        for _ in range(20):  # over several checkpoints
            assert is_settled()
    broker.kill()
    broker.command = command  # type: ignore[method-assign]
    healthy = BrokerProcess(tmp_path)
    healthy.wrap = lambda command: [f"{data},{more}" if each == data else each for each in command]
    healthy.start()
    with WireClient(healthy.address) as client:
        wait_until(lambda: write_each(client) == [NONE] * PARTITIONS, "the logs are loaded")
        for partition in there:
            assert wire_requests.end_offset(client, "t", partition) >= 2
    assert healthy.stop() == 0
