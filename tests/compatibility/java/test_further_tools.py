"""Apache Kafka's tools that are used now and then (newest release) against this broker."""

import re

import pytest

from tests.compatibility.java.tools import JavaTools
from tests.support import wire_requests
from tests.support.broker_process import Broker
from tests.support.wire_client import WireClient
from tests.support.wire_records import Batch

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

TOOLS = "org.apache.kafka.tools"
OFFSETS = f"{TOOLS}.GetOffsetShell"


def at(broker: Broker) -> tuple[str, str]:
    """Return the option that names the broker."""
    return "--bootstrap-server", broker.address


@pytest.fixture
def made(broker: Broker, topic: str) -> str:
    """A topic with two partitions, and three records in the first."""
    with WireClient(broker.address) as client:
        wire_requests.create_topic(client, topic, 2)
        wire_requests.produce(client, topic, Batch([b"a", b"b", b"c"]).encode())
    return topic


def test_end_to_end_latency_is_measured(java: JavaTools, broker: Broker, made: str) -> None:
    measured = java.run(
        f"{TOOLS}.EndToEndLatency",
        *(*at(broker), "--topic", made, "--num-records", "20"),
        *("--producer-acks", "all", "--record-size", "100", "--num-headers", "1"),
    )

    assert re.search(r"Avg latency: [\d.]+ ms", measured)
    assert re.search(r"Percentiles: 50th = \d+, 99th = \d+, 99.9th = \d+", measured)


@pytest.mark.parametrize(
    ("which", "offsets"),
    [
        (["--time", "-1"], {0: 3, 1: 0}),
        (["--time", "earliest"], {0: 0, 1: 0}),
        (["--time", "max-timestamp"], {0: 0}),
        (["--time", "earliest-local"], {0: 0, 1: 0}),
        (["--time", "1"], {0: 0}),
        (["--partitions", "0"], {0: 3}),
    ],
    ids=lambda each: each[-1] if isinstance(each, list) else "",
)
def test_get_offsets_finds_each_kind_of_offset(
    java: JavaTools, broker: Broker, made: str, which: list[str], offsets: dict[int, int]
) -> None:
    found = java.run(OFFSETS, *at(broker), "--topic", made, *which)

    lines = re.findall(rf"^{made}:(\d+):(\d+)$", found, re.MULTILINE)
    assert {int(place): int(offset) for place, offset in lines} == offsets


def test_get_offsets_takes_patterns_of_topics_and_partitions(
    java: JavaTools, broker: Broker, made: str
) -> None:
    by_pattern = java.run(OFFSETS, *at(broker), "--topic-partitions", f"{made[:-3]}.*:1-")

    assert re.findall(r"^\S+:\d+:\d+$", by_pattern, re.MULTILINE) == [f"{made}:1:0"]
