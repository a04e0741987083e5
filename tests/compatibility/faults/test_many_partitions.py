"""Many partitions through kill -9: recovered while they are used, deleted all or not at all."""

import signal
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import Batch, read_batches

StartBroker = Callable[..., BrokerProcess]

PARTITIONS = 400
NOT_LEADER = 6
READY_TIMEOUT_S = 120.0


def values_of(client: WireClient, topic: str, partition: int) -> list[bytes | None]:
    """Return every value of a small partition."""
    batches = read_batches(wire_requests.fetch(client, topic, partition, 0))
    return [value for batch in batches for value in batch.values]


def produce_until_accepted(
    client: WireClient, topic: str, partition: int, value: bytes
) -> tuple[int, int]:
    """Return the base offset, and how often the batch was refused before."""
    refused = 0
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        code, offset = wire_requests.produce(client, topic, Batch([value]).encode(), partition)
        if code == 0:
            return offset, refused
        assert code == NOT_LEADER, f"partition {partition} got error {code}"
        assert time.monotonic() < deadline, f"partition {partition} is not ready"
        refused += 1


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_a_client_that_produces_during_recovery_loses_nothing(
    start_broker: StartBroker, durability: str
) -> None:
    broker = start_broker(f"polylog.durability={durability}")
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "many", PARTITIONS)
        for partition in range(PARTITIONS):
            assert wire_requests.produce(
                client, "many", Batch([b"before %d" % partition]).encode(), partition
            ) == (0, 0)
    broker.kill()

    broker.start_loading()

    # The last ones first: most of them are still loading when they are requested.
    order = range(PARTITIONS - 1, -1, -1)
    with WireClient(broker.address) as client:
        metadata = client.request("Metadata", 9, {"topics": None})
        offsets = {
            partition: produce_until_accepted(client, "many", partition, b"after %d" % partition)[0]
            for partition in order
        }
        found = {partition: values_of(client, "many", partition) for partition in order}
    [topic] = [each for each in metadata["topics"] if each["name"] == "many"]
    assert [each["leader_id"] for each in topic["partitions"]] == [1] * PARTITIONS
    assert set(offsets.values()) == {1}
    assert found == {
        partition: [b"before %d" % partition, b"after %d" % partition] for partition in order
    }


def test_a_second_kill_during_recovery_loses_nothing(
    start_broker: StartBroker, choices: Random
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "many", PARTITIONS)
        for partition in range(PARTITIONS):
            wire_requests.produce(client, "many", Batch([b"value"]).encode(), partition)
    for _ in range(4):
        broker.kill()
        broker.start_loading()
        time.sleep(choices.random() * 0.1)
    broker.kill()

    broker.start()

    with WireClient(broker.address) as client:
        for partition in range(PARTITIONS):
            assert values_of(client, "many", partition) == [b"value"]


def test_a_stop_during_loading_stops_the_broker(start_broker: StartBroker) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, "many", PARTITIONS)
        for partition in range(PARTITIONS):
            wire_requests.produce(client, "many", Batch([b"value"]).encode(), partition)
    assert broker.stop() == 0
    for _ in range(3):
        broker.start_loading()
        broker.signal(signal.SIGTERM)
        assert broker.wait() == 0

    broker.start()

    assert (broker.data_dir / "recovery-point-offset-checkpoint").exists()
    with WireClient(broker.address) as client:
        for partition in range(PARTITIONS):
            assert values_of(client, "many", partition) == [b"value"]


def folders(data_dir: Path) -> set[str]:
    """Return the folders of partitions, deleted, set aside or in use."""
    return {entry.name for entry in data_dir.iterdir() if entry.is_dir()}


@pytest.mark.slow("kills and restarts a broker under load, --kill-cycles times")
def test_kill_9_at_any_moment_of_a_delete_leaves_all_or_nothing(
    start_broker: StartBroker, choices: Random, request: pytest.FixtureRequest
) -> None:
    cycles: int = request.config.getoption("--kill-cycles")
    broker = start_broker("log.segment.delete.delay.ms=0")
    ids: set[bytes] = set()
    partitions = 30
    for cycle in range(cycles):
        with WireClient(broker.address) as client:
            wire_requests.create_topic(client, "doomed", partitions)
            ids.add(topic_id_of(client))
            for partition in range(partitions):
                value = b"run %d" % cycle
                wire_requests.produce(client, "doomed", Batch([value]).encode(), partition)
            client.send("DeleteTopics", 5, {"topic_names": ["doomed"], "timeout_ms": 10_000})
            time.sleep(choices.random() * 0.03)
        broker.kill()
        broker.start()
        with WireClient(broker.address) as client:
            if topic_id_of(client):  # the kill came before the commit: the whole topic exists
                for partition in range(partitions):
                    assert values_of(client, "doomed", partition) == [b"run %d" % cycle]
                client.request("DeleteTopics", 5, {"topic_names": ["doomed"], "timeout_ms": 10_000})
        wait_until(lambda: folders(broker.data_dir) == set(), "nothing of the topic is left")
    assert len(ids) == cycles


def topic_id_of(client: WireClient) -> bytes:
    """Return the id of the deleted topic, or None if it does not exist."""
    try:
        answer = client.request(
            "Metadata", 10, {"topics": [{"name": "doomed"}], "allow_auto_topic_creation": False}
        )
    except ConnectionClosedError:
        return b""
    [topic] = answer["topics"]
    return bytes(topic["topic_id"]) if topic["error_code"] == 0 else b""
