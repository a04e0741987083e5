"""A broker with few descriptors: more partitions and connections than it may open files."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, spends_at_most, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch, read_batches

KAFKA_STORAGE_ERROR = 56
PARTITIONS_PER_DESCRIPTOR = 1.5
TIMEOUT_S = 60.0


@pytest.fixture(params=[256, 1_024])
def descriptors(request: pytest.FixtureRequest) -> int:
    """Return the descriptor limit of the broker."""
    return int(request.param)


@pytest.fixture
def broker(tmp_path: Path, descriptors: int) -> Iterator[BrokerProcess]:
    """Start a broker with these limits; with few, one that defers most syncs."""
    durability = "os" if descriptors == 256 else "group-commit"
    made = BrokerProcess(tmp_path, settings=[f"polylog.durability={durability}"])
    made.wrap = lambda command: with_descriptors(descriptors, command)
    made.start()
    yield made
    assert made.stop() == 0
    made.check()


def with_descriptors(count: int, command: list[str]) -> list[str]:
    """Lower both limits: the broker raises the soft one to the hard one."""
    return ["prlimit", f"--nofile={count}", *command]


def produce_to_all(client: WireClient, topic: str, value: bytes, partitions: list[int]) -> None:
    """Write a record to each, in one request; refused ones are sent again."""
    left, deadline = partitions, time.monotonic() + TIMEOUT_S
    while left:
        assert time.monotonic() < deadline, f"{len(left)} partitions take nothing"
        entries = [{"index": each, "records": Batch([value]).encode()} for each in left]
        body: dict[str, Any] = {
            "transactional_id": None,
            "acks": -1,
            "timeout_ms": 30_000,
            "topic_data": [{"name": topic, "partition_data": entries}],
        }
        [answer] = client.request("Produce", 9, body)["responses"]
        codes = {each["index"]: each["error_code"] for each in answer["partition_responses"]}
        assert set(codes.values()) <= {0, KAFKA_STORAGE_ERROR}, codes
        left = [each for each in left if codes[each] != 0]


def values_of(client: WireClient, topic: str, partition: int) -> list[bytes | None]:
    batches = read_batches(wire_requests.fetch(client, topic, partition, 0))
    return [value for batch in batches for value in batch.values]


def test_more_partitions_than_descriptors_are_written_recovered_and_read(
    broker: BrokerProcess, descriptors: int
) -> None:
    partitions = list(range(int(descriptors * PARTITIONS_PER_DESCRIPTOR)))
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "many", len(partitions))
        produce_to_all(client, "many", b"before", partitions)
    broker.kill()

    broker.start()

    with WireClient(broker.address) as client:
        produce_to_all(client, "many", b"after", partitions)
        for partition in partitions:
            assert values_of(client, "many", partition) == [b"before", b"after"]
        wire_requests.create_topic(client, "one-more")
    assert broker.open_files() < descriptors


def test_a_topic_of_small_segments_does_not_use_up_the_descriptors_of_others(
    broker: BrokerProcess,
) -> None:
    """Its segments fill faster than they are synced, because records are acknowledged before."""
    with WireClient(broker.address) as flood, WireClient(broker.address) as client:
        wire_requests.create_topic(
            client, "small", 16, segment_bytes="1024", polylog_durability="os"
        )
        wire_requests.create_topic(client, "other", 16)
        answers = []
        for number in range(60):
            records = [(each, Batch([b"x" * 900]).encode()) for each in range(16)]
            body = wire_requests.produce_body("small", records)
            answers += [
                part["error_code"]
                for part in flood.request("Produce", 9, body)["responses"][0]["partition_responses"]
            ]
            answers.append(
                wire_requests.produce(client, "other", Batch([b"a"]).encode(), number % 16)[0]
            )

        assert set(answers) == {0}
        offline = [line for line in broker.log_lines() if "log offline" in line]
        assert offline == []
        end = wire_requests.list_offset(client, "small", 0, -1)["offset"]
        assert end == 60


def test_connections_beyond_the_limit_are_refused_and_the_others_served(
    broker: BrokerProcess, descriptors: int
) -> None:
    host, _, port = broker.address.rpartition(":")
    with WireClient(broker.address) as client, ExitStack() as many:
        wire_requests.create_topic(client, "served")
        for _ in range(descriptors):
            many.enter_context(socket.create_connection((host, int(port)), TIMEOUT_S))
        with spends_at_most(broker, 2):
            for number in range(100):
                answer = wire_requests.produce(client, "served", Batch([b"a"]).encode())
                assert answer == (0, number)
        wire_requests.create_topic(client, "one-more")
        assert broker.open_files() < descriptors
        refused = [line for line in broker.log_lines() if "connections refused" in line]
        assert len(refused) == 1
    wait_until(lambda: broker.open_files() < descriptors // 2, "connections are closed")
    wire_requests.assert_serves(broker.address)


def test_a_start_with_too_few_descriptors_is_refused(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.wrap = lambda command: with_descriptors(255, command)

    broker.launch()

    assert broker.wait() == 2
    assert "the process may open 255 files" in broker.stderr()
