"""Broker settings and loggers altered at run time, and after kill -9 (KIP-226, KIP-412)."""

from collections.abc import Callable
from typing import Any

import pytest

from broker.codec import encode
from tests.support import wire_requests
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

StartBroker = Callable[..., BrokerProcess]
TOPIC = "inheriting"
OF_TOPIC, OF_BROKER, OF_LOGGERS, OF_GROUP = 2, 4, 8, 32
ALL_BROKERS = ""
MESSAGE_TOO_LARGE = 10


def alter(client: WireClient, resource_type: int, name: str, **own: str) -> int:
    """Set keys of a resource and return the error code."""
    configs = [
        {"name": key.replace("_", "."), "config_operation": 0, "value": value}
        for key, value in own.items()
    ]
    resource = {"resource_type": resource_type, "resource_name": name, "configs": configs}
    body = {"resources": [resource], "validate_only": False}
    code: int = client.request("IncrementalAlterConfigs", 1, body)["responses"][0]["error_code"]
    return code


def described(client: WireClient, resource_type: int, name: str, key: str) -> dict[str, Any]:
    resource = {
        "resource_type": resource_type,
        "resource_name": name,
        "configuration_keys": [key],
    }
    answer = client.request("DescribeConfigs", 4, {"resources": [resource]})
    entry: dict[str, Any] = answer["results"][0]["configs"][0]
    return entry


@pytest.mark.parametrize("durability", ["group-commit", "os"])
def test_an_altered_default_applies_to_the_next_batch_and_survives_kill_9(
    start_broker: StartBroker, durability: str
) -> None:
    broker = start_broker(f"polylog.durability={durability}")
    large = Batch([b"x" * 5_000]).encode()
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, TOPIC)
        assert wire_requests.produce(client, TOPIC, large) == (0, 0)

        assert alter(client, OF_BROKER, "1", message_max_bytes="3000") == 0

        assert wire_requests.produce(client, TOPIC, large)[0] == MESSAGE_TOO_LARGE
    broker.kill()
    broker.start()
    with WireClient(broker.address) as client:
        assert wire_requests.produce(client, TOPIC, large)[0] == MESSAGE_TOO_LARGE
        entry = described(client, OF_TOPIC, TOPIC, "max.message.bytes")
        assert (entry["value"], entry["config_source"]) == ("3000", 2)


def test_a_start_logs_the_altered_settings_in_force(start_broker: StartBroker) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        assert alter(client, OF_BROKER, ALL_BROKERS, polylog_durability="os") == 0

    broker.restart()

    assert "power loss may lose the last seconds" in broker.stdout()
    assert "altered settings are in force: names=polylog.durability" in broker.stderr()


def test_an_altered_connection_limit_applies(start_broker: StartBroker) -> None:
    broker = start_broker()
    with WireClient(broker.address) as first:
        assert alter(first, OF_BROKER, ALL_BROKERS, max_connections="1") == 0

        with WireClient(broker.address) as second:
            second.expect_closed()
        refusal = "connections refused: count=1 reason=max.connections and descriptors allow 1"
        wait_until(lambda: refusal in broker.stderr(), "the refusal is logged")

        assert alter(first, OF_BROKER, ALL_BROKERS, max_connections="9") == 0
        wire_requests.assert_serves(broker.address)


def test_message_max_bytes_cannot_be_raised_above_the_request_size_fixed_at_the_start(
    start_broker: StartBroker,
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        assert alter(client, OF_BROKER, "1", message_max_bytes=str(64 << 20)) == 42
        assert alter(client, OF_BROKER, "1", message_max_bytes=str(14 << 20)) == 0


def test_an_altered_cleaner_backoff_applies_at_once(start_broker: StartBroker) -> None:
    broker = start_broker("log.cleaner.backoff.ms=3600000", "log.segment.bytes=1024")
    with WireClient(broker.address) as client:
        wire_requests.create_topic(
            client, TOPIC, cleanup_policy="compact", min_cleanable_dirty_ratio="0"
        )
        for number in range(9):
            [batch] = encode([(b"key", b"%d" % number * 900)], timestamp_ms=0)
            assert wire_requests.produce(client, TOPIC, batch) == (0, number)
        assert "log compacted" not in broker.stderr()

        assert alter(client, OF_BROKER, "1", log_cleaner_backoff_ms="50") == 0

        wait_until(lambda: "log compacted" in broker.stderr(), "the log is compacted")


def test_a_consumer_group_obeys_its_own_configuration(start_broker: StartBroker) -> None:
    broker = start_broker("group.consumer.min.heartbeat.interval.ms=100")

    def interval_ms(client: WireClient, group: str) -> int:
        body = {
            "group_id": group,
            "member_id": "a-member-of-its-own",
            "member_epoch": 0,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": [TOPIC],
            "topic_partitions": [],
        }
        interval: int = client.request("ConsumerGroupHeartbeat", 1, body)["heartbeat_interval_ms"]
        return interval

    with WireClient(broker.address) as client:
        assert alter(client, OF_GROUP, "quick", consumer_heartbeat_interval_ms="123") == 0

        wait_until(lambda: interval_ms(client, "quick") == 123, "the group uses its own value")
        wait_until(
            lambda: interval_ms(client, "other") == 5_000, "other groups use the broker's value"
        )


def test_an_altered_log_level_applies_at_once(start_broker: StartBroker) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        wire_requests.assert_serves(broker.address)
        assert "connection closed" not in broker.stderr()

        assert alter(client, OF_LOGGERS, "1", broker_server_requests="DEBUG") == 0

        wire_requests.assert_serves(broker.address)
        wait_until(
            lambda: "connection closed" in broker.stderr(), "the end of a connection is logged"
        )
        entry = described(client, OF_LOGGERS, "1", "broker.server.requests")
        assert (entry["value"], entry["config_source"]) == ("DEBUG", 6)
