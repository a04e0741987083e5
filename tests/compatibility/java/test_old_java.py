"""Kafka's own clients of every era against the broker, beside a current client."""

from collections.abc import Iterator

import pytest

from tests.compatibility.clients.client import EARLIEST, Client, Record
from tests.compatibility.clients.confluent_client import connect
from tests.compatibility.conftest import found
from tests.compatibility.java.tools import JavaTools, Release
from tests.support.broker_process import Broker

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

# 0.8.2.2 is its own client, with Kafka's first producer and consumer; the others speak, in this
# order, Produce 1, 2, 5, 9 and 11, and Fetch 1, 3, 6, 12 and 17.
ANCIENT = Release("0.8.2.2", ("kafka_2.11",))
RELEASES = [
    Release(version, ("kafka-clients",))
    for version in ("0.9.0.1", "0.10.2.2", "1.1.1", "2.8.2", "3.9.2")
]
CODECS = ["none", "gzip", "snappy", "lz4"]
EACH = 5


@pytest.fixture
def client(broker: Broker) -> Iterator[Client]:
    """A current client."""
    client = connect(broker.address)
    yield client
    client.close()


@pytest.fixture
def written(client: Client, topic: str) -> list[str]:
    """The values that the current client wrote to partition 0, with headers, by every codec."""
    client.create_topic(topic)
    values = []
    for codec in CODECS:
        wrote = [f"new-{codec}-{place}" for place in range(EACH)]
        records = [Record(value.encode(), b"key", (("name", b"value"),)) for value in wrote]
        client.produce(topic, records, compression=codec, idempotent=True)
        values += wrote
    return values


def java_list(values: list[str] | range) -> str:
    """Return a list as Java prints it."""
    return f"[{', '.join(map(str, values))}]"


def read_all(client: Client, topic: str, count: int) -> list[str]:
    read = client.consume(topic, EARLIEST, count)
    assert [record.offset for record in read] == list(range(count))
    return [(record.value or b"").decode() for record in read]


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
def test_clients_of_every_release_write_read_and_share_groups_with_current_clients(
    broker: Broker, client: Client, topic: str, written: list[str], release: Release
) -> None:
    java: JavaTools = found(release)

    seen = java.facts("Generations.java", broker.address, topic, str(len(written)))

    old = [f"old-{codec}-{place}" for codec in CODECS for place in range(EACH)]
    more = [f"old-none-{place}" for place in range(EACH)]
    count = len(written)
    assert seen == {
        "found": java_list(written),
        **{
            f"wrote {codec}": java_list(range(count + EACH * place, count + EACH * (place + 1)))
            for place, codec in enumerate(CODECS)
        },
        "read": java_list(written + old),
        "group": str(count + len(old)),
        "wrote more": java_list(range(count + len(old), count + len(old) + EACH)),
        "resumed": java_list(more),
    }
    assert read_all(client, topic, count + len(old) + EACH) == written + old + more


def test_kafka_0_8_2_clients_write_read_and_commit(
    broker: Broker, client: Client, topic: str, written: list[str]
) -> None:
    java = found(ANCIENT)

    seen = java.facts("Ancient.java", broker.address, topic, str(len(written)))

    old = [f"old-{codec}-{place}" for codec in CODECS for place in range(EACH)]
    first = [f"first-{codec}-{place}" for codec in CODECS for place in range(EACH)]
    everything = written + old + first
    count = len(written)
    assert seen == {
        "leader": "0 true",
        "found": java_list(written),
        **{
            f"wrote {codec}": java_list(range(count + EACH * place, count + EACH * (place + 1)))
            for place, codec in enumerate(CODECS)
        },
        "read": java_list(everything),
        "in small pieces": str(len(everything)),
        "from the middle": java_list(everything[-3:]),
        "too small": "[]",
        "out of range": "1",
        "offsets -1": java_list([str(len(everything)), "0"]),
        "offsets -2": "[0]",
        "offsets now": java_list([str(len(everything)), "0"]),
        "offsets 1": "[]",
        "commit 0": "0 7 note -1 0",
        "commit 1": "0 8 note -1 0",
    }
    assert read_all(client, topic, len(everything)) == everything
