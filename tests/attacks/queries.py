"""Attacks by queries: short ones with long responses, long ones, many at once, none read."""

import struct
from contextlib import ExitStack, suppress
from typing import Any

from tests.attacks.topics import PARTITIONS, wide_topics
from tests.support.wire_client import ConnectionClosedError, WireClient

MIB = 1 << 20
ASKERS = 100
QUESTIONS_PER_ASKER = 20
ELEMENTS = 1_000_000
LONG_ASKERS = 20


def questions(topics: list[str]) -> list[tuple[str, int, dict[str, Any]]]:
    """Return one request of each kind over all partitions."""
    numbers = range(PARTITIONS)
    places = [{"partition_index": n, "timestamp": -1} for n in numbers]
    fetched = [{"partition": n, "partition_max_bytes": 100 * MIB} for n in numbers]
    fetch = {
        "max_wait_ms": 300_000,
        "min_bytes": 0x7FFFFFFF,
        "max_bytes": 100 * MIB,
        "topics": [{"topic": name, "partitions": fetched} for name in topics],
    }
    offsets = [{"name": name, "partition_indexes": list(numbers)} for name in topics]
    listed = [{"name": name, "partitions": places} for name in topics]
    epochs = [{"topic": n, "partitions": [{"partition": p} for p in numbers]} for n in topics]
    return [
        ("Metadata", 9, {"topics": None}),
        ("ListOffsets", 7, {"replica_id": -1, "topics": listed}),
        ("OffsetFetch", 5, {"group_id": "g", "topics": offsets}),
        ("OffsetFetch", 5, {"group_id": "offsets-0", "topics": None}),
        ("OffsetForLeaderEpoch", 3, {"replica_id": -1, "topics": epochs}),
        ("DescribeLogDirs", 2, {"topics": None}),
        ("DescribeGroups", 5, {"groups": [f"wide-{n}" for n in range(300)]}),
        ("ListGroups", 4, {}),
        ("Fetch", 11, fetch),
    ]


def ask_for_everything_and_read_nothing(address: str, held: ExitStack) -> None:
    """Send every query on every connection, pipelined, and read no response."""
    asked = questions(wide_topics(address))
    askers = [held.enter_context(WireClient(address, 1.0)) for _ in range(ASKERS)]
    frames = [ready(askers[0], *each) for each in asked]
    for number, asker in enumerate(askers):
        with suppress(TimeoutError, ConnectionClosedError):
            for turn in range(QUESTIONS_PER_ASKER):
                asker.send_bytes(frames[(number + turn) % len(frames)])


def ask_for_everything_and_read_it(address: str, held: ExitStack) -> None:
    """Send all kinds except the last, which waits, on all connections at once, and read all."""
    asked = questions(wide_topics(address))[:-1]
    askers = [held.enter_context(WireClient(address)) for _ in range(ASKERS)]
    frames = [ready(askers[0], *each) for each in asked]
    for number, asker in enumerate(askers):
        asker.send_bytes(frames[number % len(frames)])
    for asker in askers:
        with suppress(ConnectionClosedError):
            asker.receive_frame()


def ask_with_a_million_elements(address: str, held: ExitStack) -> None:
    """Send arrays whose elements are small on the wire and objects in memory."""
    bodies = [
        ("Metadata", 1, array(b"\x00\x01a")),
        ("ListOffsets", 1, b"\xff\xff\xff\xff" + topic(b"\x00\x00\x00\x00" + b"\xff" * 8)),
        ("OffsetFetch", 1, b"\x00\x01g" + topic(b"\x00\x00\x00\x01")),
        ("DescribeGroups", 0, array(b"\x00\x01g")),
        ("FindCoordinator", 4, b"\x00\xc1\x84\x3d" + b"\x02a" * ELEMENTS + b"\x00"),
        ("DeleteRecords", 0, topic(b"\x00\x00\x00\x00" + b"\x00" * 8) + b"\x00\x00\x00\x00"),
        ("CreateTopics", 0, array(b"\x00\x00\x00\x00\x00\x01\x00\x01" + bytes(8)) + bytes(4)),
        ("OffsetCommit", 2, b"\x00\x01g\xff\xff\xff\xff\x00\x00" + b"\xff" * 8 + commits()),
    ]
    for name, version, body in bodies:
        for _ in range(LONG_ASKERS // len(bodies) + 1):
            asker = held.enter_context(WireClient(address))
            with suppress(ConnectionClosedError, TimeoutError):
                asker.send_frame(asker.frame(name, version, body))


def array(element: bytes) -> bytes:
    """Return an array of as many elements as fit a frame."""
    return struct.pack(">i", ELEMENTS) + element * ELEMENTS


def topic(partition: bytes) -> bytes:
    """An array of one topic, with an array of partitions."""
    return b"\x00\x00\x00\x01\x00\x07asked-0" + array(partition)


def commits() -> bytes:
    """Return the partitions of an OffsetCommit."""
    return topic(b"\x00\x00\x00\x00" + bytes(8) + b"\xff\xff")


def ready(client: WireClient, name: str, version: int, body: dict[str, Any]) -> bytes:
    """A request with its size, to be sent many times."""
    frame = client.encoded(name, version, body)
    return struct.pack(">i", len(frame)) + frame


ATTACKS = [
    ask_for_everything_and_read_nothing,
    ask_for_everything_and_read_it,
    ask_with_a_million_elements,
]
