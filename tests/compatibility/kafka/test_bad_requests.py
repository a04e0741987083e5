"""Frames and requests that no correct client sends: a closed connection and one log line."""

import random
import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest

from broker.codec import schema
from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess, wait_until
from tests.support.wire_client import API_KEY_BY_NAME, ConnectionClosedError, WireClient
from tests.support.wire_records import Batch

pytestmark = pytest.mark.usefixtures("still_well")

INVALID_REQUIRED_ACKS = 21
UNSUPPORTED_VERSION = 35

MIB = 1 << 20
INT32_MAX = 0x7FFFFFFF
APIS = ["Produce", "Fetch", "ListOffsets", "Metadata", "OffsetCommit", "OffsetFetch"]
APIS += ["FindCoordinator", "JoinGroup", "Heartbeat", "LeaveGroup", "SyncGroup", "CreateTopics"]
APIS += ["DeleteTopics", "InitProducerId", "DescribeConfigs", "DescribeCluster"]

MUTATIONS_PER_API = 25
EXAMPLES: dict[str, dict[str, Any]] = {
    "Produce": wire_requests.produce_body("mutated", [(0, Batch([b"a", b"b"]).encode())]),
    "Fetch": wire_requests.fetch_body("mutated", 0, 0, 1_000),
    "ListOffsets": {"topics": [{"name": "mutated", "partitions": [{"timestamp": 5}]}]},
    "Metadata": {"topics": [{"name": "mutated"}]},
    "OffsetCommit": {
        "group_id": "g",
        "topics": [{"name": "mutated", "partitions": [{"committed_offset": 1}]}],
    },
    "OffsetFetch": {
        "group_id": "g",
        "topics": [{"name": "mutated", "partition_indexes": [0]}],
        "groups": [{"group_id": "g", "topics": [{"name": "mutated", "partition_indexes": [0]}]}],
    },
    "FindCoordinator": {"key": "g", "coordinator_keys": ["g"]},
    "JoinGroup": {
        "group_id": "g",
        "session_timeout_ms": 6_000,
        "rebalance_timeout_ms": 6_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00\x00"}],
    },
    "SyncGroup": {"group_id": "g", "assignments": [{"member_id": "m", "assignment": b"\x00"}]},
    "Heartbeat": {"group_id": "g", "member_id": "m"},
    "LeaveGroup": {"group_id": "g", "members": [{"member_id": "m"}]},
    "CreateTopics": {
        "topics": [{"name": "made", "num_partitions": 1, "replication_factor": 1}],
    },
    "DeleteTopics": {"topics": [{"name": "made"}], "topic_names": ["made"]},
    "DescribeConfigs": {"resources": [{"resource_type": 2, "resource_name": "mutated"}]},
}


def highest(client: WireClient, name: str) -> int:
    """Return the highest version of an API that the broker advertises."""
    [version] = [
        api["max_version"]
        for api in client.request("ApiVersions", 0, {})["api_keys"]
        if api["api_key"] == API_KEY_BY_NAME[name]
    ]
    return int(version)


@pytest.mark.parametrize("size", [-1, -(1 << 31), INT32_MAX, 101 * MIB])
@pytest.mark.usefixtures("logs_one_line")
def test_a_frame_of_impossible_size_closes_the_connection(wire: WireClient, size: int) -> None:
    wire.send_bytes(struct.pack(">i", size) + b"\x00\x03\x00\x00")

    wire.expect_closed()


@pytest.mark.parametrize(
    ("settings", "size_max"), [((), 16 * MIB), (("socket.request.max.bytes=4194304",), 4 * MIB)]
)
def test_a_request_has_at_most_as_many_bytes_as_configured(
    start_broker: Callable[..., BrokerProcess], settings: tuple[str, ...], size_max: int
) -> None:
    broker = start_broker(*settings)
    with WireClient(broker.address) as client:
        client.request("ApiVersions", 0, {})  # otherwise its first bytes would be RustLog's

        def frame_of(size: int) -> bytes:
            body = wire_requests.produce_body("t", [(0, bytes(size))])
            return client.frame("Produce", 7, schema.request(0).encode(7, body))

        empty = len(frame_of(0))
        client.send_frame(frame_of(size_max - empty))
        assert client.receive_frame()
        client.send_bytes(struct.pack(">i", size_max + 1) + frame_of(0)[:20])
        client.expect_closed()
    reason = f"a length that is not 10 to {size_max}\n"
    wait_until(lambda: reason in broker.stderr(), "the reason is logged")


@pytest.mark.parametrize("size", [0, 1, 7])
@pytest.mark.usefixtures("logs_one_line")
def test_a_frame_too_short_for_its_header_closes_the_connection(
    wire: WireClient, size: int
) -> None:
    wire.request("ApiVersions", 0, {})  # otherwise its first bytes would be RustLog's
    wire.send_frame(b"\x00\x12\x00\x00\x00\x00\x00"[:size])

    wire.expect_closed()


def test_a_request_whose_client_disconnects_within_the_frame_has_no_effect(broker: Broker) -> None:
    for cut in range(1, 12):
        with WireClient(broker.address) as client:
            frame = client.frame("Metadata", 1, b"\x00\x00\x00\x00")
            client.send_bytes((struct.pack(">i", len(frame)) + frame)[:cut])


def test_a_request_that_arrives_byte_by_byte_is_answered(wire: WireClient) -> None:
    frame = wire.frame("ApiVersions", 0, b"")

    for byte in struct.pack(">i", len(frame)) + frame:
        wire.send_bytes(bytes([byte]))

    assert wire.receive_frame()[:6] == frame[4:8] + b"\x00\x00"


# 4 to 7 were between brokers, before Kafka 4.0.
@pytest.mark.parametrize("key", [-1, 4, 5, 6, 7, 94, 999, 0x7FFF])
@pytest.mark.usefixtures("logs_one_line")
def test_an_unknown_api_key_closes_the_connection(wire: WireClient, key: int) -> None:
    wire.request("ApiVersions", 0, {})  # otherwise its first bytes would be RustLog's
    wire.send_frame(struct.pack(">hhi", key, 0, 1) + b"\x00\x04wire")

    wire.expect_closed()


@pytest.mark.parametrize("key", [-7, -1, 128, 999, 0x7FFF])
@pytest.mark.usefixtures("logs_one_line")
def test_a_first_frame_with_an_api_key_of_no_protocol_closes_the_connection(
    wire: WireClient, key: int
) -> None:
    wire.send_frame(struct.pack(">hhi", key, 0, 1) + b"\x00\x04wire")

    wire.expect_closed()


@pytest.mark.parametrize("version", [-1, 99])
@pytest.mark.usefixtures("logs_one_line")
def test_an_unsupported_version_closes_the_connection(wire: WireClient, version: int) -> None:
    wire.send_frame(wire.frame("Metadata", version, b"\x00\x00\x00\x00"))

    wire.expect_closed()


@pytest.mark.parametrize("beyond", [1, 90])
def test_api_versions_too_new_is_answered_in_version_0_with_its_range(
    broker: Broker, wire: WireClient, beyond: int
) -> None:
    with WireClient(broker.address) as honest:
        newest = highest(honest, "ApiVersions")
    wire.send_frame(wire.frame("ApiVersions", newest + beyond, b"\x00"))

    frame = wire.receive_frame()

    correlation_id, code, count = struct.unpack_from(">ihi", frame)
    rows = list(struct.iter_unpack(">hhh", frame[10:]))
    assert (correlation_id, code, count) == (1, UNSUPPORTED_VERSION, len(rows))
    assert (API_KEY_BY_NAME["ApiVersions"], 0, newest) in rows


@pytest.mark.parametrize("body", [b"", b"\xff" * 40, b"\x7f" * 40], ids=["empty", "ff", "7f"])
@pytest.mark.parametrize("name", APIS)
@pytest.mark.usefixtures("logs_one_line")
def test_a_malformed_body_closes_the_connection(wire: WireClient, name: str, body: bytes) -> None:
    wire.send_frame(wire.frame(name, highest(wire, name), body))

    wire.expect_closed()


@pytest.mark.parametrize(
    ("name", "version", "body"),
    [
        ("Metadata", 1, struct.pack(">i", INT32_MAX)),
        ("Metadata", 9, b"\xff\xff\xff\xff\x0f"),
        ("Metadata", 9, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ("Produce", 8, struct.pack(">hhii", -1, 1, 1000, INT32_MAX)),
        ("Produce", 9, b"\x00" + struct.pack(">hi", 1, 1000) + b"\xff\xff\xff\xff\x0f"),
        ("Fetch", 11, struct.pack(">iiiibiii", -1, 0, 1, 1, 0, 0, -1, INT32_MAX)),
        ("Fetch", 12, struct.pack(">iiiibii", -1, 0, 1, 1, 0, 0, -1) + b"\xff\xff\xff\xff\x0f"),
        ("CreateTopics", 4, struct.pack(">i", INT32_MAX)),
    ],
)
@pytest.mark.usefixtures("logs_one_line")
def test_a_count_larger_than_its_frame_closes_the_connection(
    wire: WireClient, name: str, version: int, body: bytes
) -> None:
    wire.send_frame(wire.frame(name, version, body))

    wire.expect_closed()


def test_acks_that_do_not_exist_are_refused(wire: WireClient, topic: str) -> None:
    wire_requests.create_topic(wire, topic)

    code, _ = wire_requests.produce(wire, topic, Batch().encode(), acks=2)

    assert code == INVALID_REQUIRED_ACKS
    assert wire_requests.end_offset(wire, topic) == 0


def test_an_error_of_a_produce_with_acks_0_closes_the_connection(
    wire: WireClient, topic: str
) -> None:
    wire_requests.create_topic(wire, topic)
    body = wire_requests.produce_body(topic, [(0, Batch(crc=1).encode())], acks=0)

    wire.send("Produce", wire_requests.PRODUCE_VERSION, body)

    wire.expect_closed()


def test_mutated_requests_of_every_api_do_no_harm(
    start_broker: Callable[..., BrokerProcess], choices: random.Random
) -> None:
    broker = start_broker()
    with WireClient(broker.address) as client:
        apis = client.request("ApiVersions", 0, {})["api_keys"]

    for api in apis:
        for _ in range(MUTATIONS_PER_API):
            version = choices.randint(api["min_version"], api["max_version"])
            body = mutated(valid_body(api["api_key"], version), choices)
            say_and_leave(broker.address, schema.API_KEYS[api["api_key"]], version, body)
        assert broker.is_running, schema.API_KEYS[api["api_key"]]
        wire_requests.assert_serves(broker.address)


def valid_body(api_key: int, version: int) -> bytes:
    """Return a request with one element in every array and defaults elsewhere."""
    return schema.request(api_key).encode(version, EXAMPLES.get(schema.API_KEYS[api_key], {}))


def mutated(body: bytes, mutations: random.Random) -> bytes:
    """Return the request with a few bytes changed, sometimes truncated or extended."""
    changed = bytearray(body or b"\x00")
    for _ in range(mutations.randint(1, 4)):
        changed[mutations.randrange(len(changed))] = mutations.choice([0, 1, 127, 128, 255])
    if mutations.random() < 0.3:
        del changed[mutations.randrange(len(changed)) :]
    return bytes(changed) + mutations.randbytes(mutations.choice([0, 0, 0, 30]))


def say_and_leave(address: str, name: str, version: int, body: bytes) -> None:
    """Send one request, half-close, and wait a moment for the broker to close."""
    with WireClient(address, timeout_s=0.2) as client:
        try:
            client.send_frame(client.frame(name, version, body))
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(1 << 16):
                pass
        except (OSError, ConnectionClosedError):
            pass  # It may close first, or serve a long poll.
