"""Topic settings and administration against the real process, and after kill -9 (issue 5)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from broker.codec import encode, records, scan_headers
from broker.model.clock import SystemClock
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

StartBroker = Callable[..., BrokerProcess]
TOPIC = "settled"
RESOURCE_TOPIC = 2


def alter(client: WireClient, **own: str) -> int:
    """Set keys of the topic and return the error code."""
    configs = [
        {"name": name.replace("_", "."), "config_operation": 0, "value": value}
        for name, value in own.items()
    ]
    resource = {"resource_type": RESOURCE_TOPIC, "resource_name": TOPIC, "configs": configs}
    body = {"resources": [resource], "validate_only": False}
    code: int = client.request("IncrementalAlterConfigs", 1, body)["responses"][0]["error_code"]
    return code


def described(client: WireClient, name: str) -> str:
    resource = {
        "resource_type": RESOURCE_TOPIC,
        "resource_name": TOPIC,
        "configuration_keys": [name],
    }
    answer = client.request("DescribeConfigs", 4, {"resources": [resource]})
    value: str = answer["results"][0]["configs"][0]["value"]
    return value


def delete_below(client: WireClient, offset: int, partition: int = 0) -> tuple[int, int]:
    partitions = [{"partition_index": partition, "offset": offset}]
    body = {"topics": [{"name": TOPIC, "partitions": partitions}], "timeout_ms": 5_000}
    answer = client.request("DeleteRecords", 2, body)["topics"][0]["partitions"][0]
    return answer["error_code"], answer["low_watermark"]


def grow(client: WireClient, total: int) -> int:
    wanted = [{"name": TOPIC, "count": total, "assignments": None}]
    body = {"topics": wanted, "timeout_ms": 5_000, "validate_only": False}
    code: int = client.request("CreatePartitions", 3, body)["results"][0]["error_code"]
    return code


def produced(client: WireClient, batch: bytes) -> dict[str, Any]:
    """Write a batch to partition 0 and return its whole response."""
    answer = client.request("Produce", 9, wire_requests.produce_body(TOPIC, [(0, batch)]))
    partition: dict[str, Any] = answer["responses"][0]["partition_responses"][0]
    return partition


@pytest.mark.parametrize("durability", ["os", "group-commit"])
def test_administrative_changes_survive_kill_9(start_broker: StartBroker, durability: str) -> None:
    broker = start_broker(f"polylog.durability={durability}")
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC)
        wire_requests.produce(client, TOPIC, Batch([b"a", b"b", b"c", b"d"]).encode())
        assert alter(client, max_message_bytes="300", retention_ms="-1") == 0
        assert grow(client, 3) == 0
        assert delete_below(client, 2) == (0, 2)
        broker.kill()

    broker.start()
    wait_until_loaded(broker)

    with WireClient(broker.address) as client:
        assert described(client, "retention.ms") == "-1"
        assert wire_requests.produce(client, TOPIC, Batch([b"x" * 400]).encode())[0] == 10
        assert wire_requests.produce(client, TOPIC, Batch([b"e"]).encode(), partition=2)[0] == 0
        assert wire_requests.list_offset(client, TOPIC, 0, -2)["offset"] == 2
        assert wire_requests.end_offset(client, TOPIC) == 4
        found = list(records(wire_requests.fetch(client, TOPIC, 0, 2)))
        assert [each.value for each in found if each.offset >= 2] == [b"c", b"d"]


def test_after_delete_records_and_kill_9_a_log_continues_at_its_end_offset(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC)
        wire_requests.produce(client, TOPIC, Batch([b"a", b"b"]).encode())
        assert delete_below(client, -1) == (0, 2)
        broker.kill()

    broker.start()
    wait_until_loaded(broker)

    with WireClient(broker.address) as client:
        assert wire_requests.list_offset(client, TOPIC, 0, -2)["offset"] == 2
        assert wire_requests.produce(client, TOPIC, Batch([b"c"]).encode()) == (0, 2)


def test_a_leader_epoch_ends_where_the_broker_was_killed(start_broker: StartBroker) -> None:
    """A consumer finds out after an unclean restart whether the records it read still exist."""
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC)
        wire_requests.produce(client, TOPIC, Batch([b"a", b"b"]).encode())
        broker.kill()

    broker.start()
    wait_until_loaded(broker)

    with WireClient(broker.address) as client:
        wire_requests.produce(client, TOPIC, Batch([b"c"]).encode())
        asked = [
            {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch} for epoch in (0, 1)
        ]
        body = {"replica_id": -1, "topics": [{"topic": TOPIC, "partitions": asked}]}
        answers = client.request("OffsetForLeaderEpoch", 4, body)["topics"][0]["partitions"]
        assert [(each["leader_epoch"], each["end_offset"]) for each in answers] == [(0, 2), (1, 3)]


def test_the_next_batch_obeys_an_altered_topic_on_the_native_and_the_python_path(
    start_broker: StartBroker,
) -> None:
    """Each alteration moves the topic from the native path to the Python path or back."""
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC)
        before_ms = SystemClock().wall_ms() - 60_000
        plain = encode([b"no key" * 20], timestamp_ms=before_ms)[0]
        assert produced(client, plain)["error_code"] == 0

        assert alter(client, compression_type="zstd") == 0
        assert produced(client, plain)["error_code"] == 0
        assert alter(client, compression_type="producer") == 0
        assert alter(client, message_timestamp_type="LogAppendTime") == 0
        stamped = produced(
            client, encode([b"a", b"b"], compression="lz4", timestamp_ms=before_ms)[0]
        )
        assert alter(client, message_timestamp_type="CreateTime", cleanup_policy="compact") == 0
        keyless = produced(client, encode([(b"k", b"v"), b"no key"])[0])
        assert alter(client, cleanup_policy="delete", min_insync_replicas="2") == 0
        assert produced(client, plain)["error_code"] == 0

        assert stamped["error_code"] == 0
        assert stamped["log_append_time_ms"] > before_ms
        assert keyless["error_code"] == 87
        assert [each["batch_index"] for each in keyless["record_errors"]] == [1]
        stored = wire_requests.fetch(client, TOPIC, 0, 0)
        assert [each.attributes for each in scan_headers(stored)] == [0, 4, 0x08 | 3, 0]
        times = [each.timestamp for each in records(stored)]
        assert times == [before_ms, before_ms, *[stamped["log_append_time_ms"]] * 2, before_ms]


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_repeats_of_an_idempotent_producer_are_recognized_through_recompression(
    start_broker: StartBroker, codec: str
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC, compression_type=codec)
        producer_id, epoch = wire_requests.init_producer_id(client)

        def send(sequence: int) -> tuple[int, int]:
            [batch] = encode(
                [b"value" * 30, b"other" * 30],
                compression="gzip" if codec != "gzip" else "none",
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
            return wire_requests.produce(client, TOPIC, batch)

        assert [send(0), send(2), send(0), send(2)] == [(0, 0), (0, 2), (0, 0), (0, 2)]
        assert send(9)[0] == 45
        assert wire_requests.end_offset(client, TOPIC) == 4


def test_requests_of_one_connection_keep_their_order_through_recompression(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC, compression_type="gzip")
        batches = [encode([b"%d " % number * 500])[0] for number in range(50)]
        for batch in batches:
            client.send("Produce", 9, wire_requests.produce_body(TOPIC, [(0, batch)]))

        answers = [wire_requests.produced(client.receive()) for _ in batches]

        assert answers == [(0, number) for number in range(50)]
        values = [each.value for each in records(wire_requests.fetch(client, TOPIC, 0, 0))]
        assert values == [b"%d " % number * 500 for number in range(50)]


def test_the_batch_of_a_producer_with_acks_0_that_disconnects_is_stored(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC, compression_type="zstd")
        for number in range(1, 11):
            with WireClient(broker.address) as leaving:
                batch = encode([b"gone " * 2_000])[0]
                body = wire_requests.produce_body(TOPIC, [(0, batch)], acks=0)
                leaving.send("Produce", 9, body)
            wait_until_end(client, number)


def wait_until_loaded(broker: BrokerProcess) -> None:
    """Wait until every partition of the topic has a leader again."""
    with WireClient(broker.address) as client:
        [topic] = client.request("Metadata", 9, {"topics": [{"name": TOPIC}]})["topics"]
        count = len(topic["partitions"])
        wait_until(partial(wire_requests.is_led, client, TOPIC, count), f"{TOPIC} is loaded")


def wait_until_end(client: WireClient, offset: int) -> None:
    wait_until(lambda: wire_requests.end_offset(client, TOPIC) == offset, "it is stored")
