"""What clients of Kafka 0.8 and 0.9 send, in their order, and the answers, byte for byte.

The bytes are those of the guide to the protocol of that time, written by hand.
"""

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tests.support.broker_process import Broker, wait_until
from tests.support.guide_bytes import (
    COMMIT,
    COORDINATOR,
    DESCRIBE,
    FETCH,
    HEARTBEAT,
    JOIN,
    LEAVE,
    LIST,
    LIST_OFFSETS,
    METADATA,
    OFFSETS,
    PRODUCE,
    SYNC,
    array,
    data,
    i16,
    i32,
    i64,
    message,
    text,
)

TIMEOUT_S = 60
CLIENT_ID = "of 0.9"
WAIT_MS = 200
EARLIEST, LATEST = -2, -1


class GuideClient:
    """One connection, without a handshake."""

    def __init__(self, address: str) -> None:
        """Connect."""
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self._socket = socket.create_connection((self.host, self.port), TIMEOUT_S)
        self._file = self._socket.makefile("rb")
        self._sent = 0

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self._socket.close()

    def send(self, key: int, version: int, body: bytes) -> None:
        """Send a request; its correlation id is its number, from the largest one down."""
        self._sent += 1
        head = i16(key) + i16(version) + i32((1 << 31) - self._sent) + text(CLIENT_ID)
        self._socket.sendall(i32(len(head + body)) + head + body)

    def ask(self, key: int, version: int, body: bytes) -> bytes:
        """Send a request and return the body of its response."""
        self.send(key, version, body)
        (size,) = struct.unpack(">i", self._file.read(4))
        answer = self._file.read(size)
        assert answer[:4] == i32((1 << 31) - self._sent)
        return answer[4:]


@pytest.fixture
def client(broker: Broker) -> Iterator[GuideClient]:
    """A connection to a broker whose node.id is 1."""
    if not broker.is_ours:
        pytest.skip("the ids of a broker elsewhere are not known")
    client = GuideClient(broker.address)
    yield client
    client.close()


def of_topic(topic: str, *partitions: bytes) -> bytes:
    """Return an array of one topic with its partitions."""
    return array([text(topic) + array(partitions)])


def test_a_client_of_0_8_writes_reads_and_commits(client: GuideClient, topic: str) -> None:
    def produce(acks: int, *messages: bytes, partition: int = 0) -> bytes:
        return i16(acks) + i32(1_000) + of_topic(topic, i32(partition) + data(b"".join(messages)))

    def fetch(offset: int, bytes_max: int = 1 << 20, wait_ms: int = 0) -> bytes:
        place = i32(0) + i64(offset) + i32(bytes_max)
        return client.ask(FETCH, 0, i32(-1) + i32(wait_ms) + i32(1) + of_topic(topic, place))

    def found(error: int, high_watermark: int, messages: bytes) -> bytes:
        return of_topic(topic, i32(0) + i16(error) + i64(high_watermark) + data(messages))

    def offsets(at: int, count: int) -> bytes:
        return client.ask(LIST_OFFSETS, 0, i32(-1) + of_topic(topic, i32(0) + i64(at) + i32(count)))

    brokers = array([i32(1) + text(client.host) + i32(client.port)])
    partition = i16(0) + i32(0) + i32(1) + array([i32(1)]) + array([i32(1)])
    assert client.ask(METADATA, 0, array([text(topic)])) == (
        brokers + array([i16(0) + text(topic) + array([partition])])
    )

    sent = [message(0, 77, b"one"), message(0, 77, b"two")]
    assert client.ask(PRODUCE, 0, produce(1, *sent)) == (of_topic(topic, i32(0) + i16(0) + i64(0)))
    client.send(PRODUCE, 0, produce(0, message(0, 0, b"three")))  # it has no response
    assert offsets(LATEST, 10) == of_topic(topic, i32(0) + i16(0) + array([i64(3), i64(0)]))
    assert offsets(LATEST, 1) == of_topic(topic, i32(0) + i16(0) + array([i64(3)]))
    assert offsets(EARLIEST, 10) == of_topic(topic, i32(0) + i16(0) + array([i64(0)]))
    damaged = message(0, 0, b"four")[:-1] + b"x"
    assert client.ask(PRODUCE, 0, produce(-1, damaged)) == (
        of_topic(topic, i32(0) + i16(2) + i64(-1))
    )
    assert client.ask(PRODUCE, 0, produce(-1, *sent, partition=7)) == (
        of_topic(topic, i32(7) + i16(3) + i64(-1))
    )

    stored = message(0, 1, b"two") + message(0, 2, b"three")
    assert fetch(1) == found(0, 3, stored)
    assert fetch(1, len(stored) - 1) == found(0, 3, stored[:-1]), "the last message may be partial"
    begun = time.monotonic()
    assert fetch(3, wait_ms=WAIT_MS) == found(0, 3, b"")
    assert time.monotonic() - begun > WAIT_MS / 1_000 - 0.05
    assert fetch(4) == found(1, -1, b"")

    group = f"group-of-{topic}"
    assert client.ask(COORDINATOR, 0, text(group)) == (
        i16(0) + i32(1) + text(client.host) + i32(client.port)
    )
    commit = text(group) + of_topic(topic, i32(0) + i64(2) + text("a note"))
    wait_until(
        lambda: client.ask(COMMIT, 0, commit) == of_topic(topic, i32(0) + i16(0)),
        "the coordinator has loaded",
    )
    for version in (0, 1):
        wanted = of_topic(topic, i32(0))
        assert client.ask(OFFSETS, version, text(group) + wanted) == (
            of_topic(topic, i32(0) + i64(2) + text("a note") + i16(0))
        )
        assert client.ask(OFFSETS, version, text(f"no-{group}") + wanted) == (
            of_topic(topic, i32(0) + i64(-1) + text("") + i16(0))
        )


def test_a_client_of_0_9_is_the_member_of_a_group(client: GuideClient, topic: str) -> None:
    group = text(f"group-of-{topic}")
    subscription = i16(0) + array([text(topic)]) + data(b"user data")
    assignment = i16(0) + of_topic(topic, i32(0)) + data(None)
    client.ask(METADATA, 0, array([text(topic)]))
    client.ask(COORDINATOR, 0, group)
    join = group + i32(10_000) + text("") + text("consumer")
    join += array([text("range") + data(subscription), text("other") + data(b"")])

    joined = b""

    def has_joined() -> bool:
        nonlocal joined
        joined = client.ask(JOIN, 0, join)
        return joined.startswith(i16(0))

    wait_until(has_joined, "the coordinator has loaded")
    head = i16(0) + i32(1) + text("range")
    assert joined.startswith(head)
    (size,) = struct.unpack_from(">h", joined, len(head))
    member = joined[len(head) : len(head) + 2 + size]
    assert joined == head + member + member + array([member + data(subscription)])
    assert member[2:].startswith(CLIENT_ID.encode())

    sync = group + i32(1) + member + array([member + data(assignment)])
    assert client.ask(SYNC, 0, sync) == i16(0) + data(assignment)
    assert client.ask(HEARTBEAT, 0, group + i32(1) + member) == i16(0)
    assert client.ask(HEARTBEAT, 0, group + i32(0) + member) == i16(22)
    assert client.ask(HEARTBEAT, 0, group + i32(1) + text("nobody")) == i16(25)
    at_time, retained = i32(0) + i64(3) + i64(-1) + text(""), i32(0) + i64(4) + text("")
    for version, body in (
        (1, i32(1) + member + of_topic(topic, at_time)),
        (2, i32(1) + member + i64(-1) + of_topic(topic, retained)),
    ):
        assert client.ask(COMMIT, version, group + body) == of_topic(topic, i32(0) + i16(0))
    stale = group + i32(0) + member + i64(-1) + of_topic(topic, retained)
    assert client.ask(COMMIT, 2, stale) == of_topic(topic, i32(0) + i16(22))
    assert client.ask(OFFSETS, 1, group + of_topic(topic, i32(0))) == (
        of_topic(topic, i32(0) + i64(4) + text("") + i16(0))
    )

    described = member + text(CLIENT_ID) + text("/127.0.0.1") + data(subscription)
    stable = i16(0) + group + text("Stable") + text("consumer") + text("range")
    dead = i16(0) + text("nothing") + text("Dead") + text("") + text("") + array([])
    assert client.ask(DESCRIBE, 0, array([group, text("nothing")])) == (
        array([stable + array([described + data(assignment)]), dead])
    )
    listed = client.ask(LIST, 0, b"")
    assert listed[:2] == i16(0)
    assert group + text("consumer") in listed
    assert client.ask(LEAVE, 0, group + member) == i16(0)
    assert client.ask(HEARTBEAT, 0, group + i32(1) + member) == i16(25)
