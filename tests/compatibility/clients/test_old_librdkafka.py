"""librdkafka that does not ask for the broker's versions but is told its release."""

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from tests.compatibility.clients import confluent_client
from tests.compatibility.clients.client import EARLIEST, Client, Record, collect
from tests.support.broker_process import Broker

# It supports groups since 0.9 and timestamps in messages since 0.10.
RELEASES = ["0.8.0", "0.8.2.2", "0.9.0.1", "0.10.0.0"]
CODECS = ["none", "gzip", "snappy", "lz4"]
NOW_MS = 1_700_000_000_000
EACH = 3


@pytest.fixture
def connect(broker: Broker) -> Iterator[Callable[..., Client]]:
    """Make clients that are closed at the end."""
    clients = []

    def made(release: str | None = None) -> Client:
        settings = {"api_version_request": False, "broker_version_fallback": release}
        clients.append(confluent_client.connect(broker.address, **(settings if release else {})))
        return clients[-1]

    yield made
    for client in clients:
        client.close()


def records(codec: str) -> list[Record]:
    return [
        Record(f"{codec}-{place}".encode(), b"key", timestamp=NOW_MS + place)
        for place in range(EACH)
    ]


@pytest.mark.parametrize("release", RELEASES)
def test_an_old_librdkafka_exchanges_records_with_the_current_one(
    connect: Callable[..., Client], topic: str, release: str
) -> None:
    old, new = connect(release), connect()
    new.create_topic(topic)
    for place, codec in enumerate(CODECS):
        base = 2 * EACH * place
        assert old.produce(topic, records(codec), compression=codec) == [
            base, base + 1, base + 2,
        ]  # fmt: skip
        new.produce(topic, records(codec), compression=codec)

    count = 2 * EACH * len(CODECS)
    expected = [record.value for codec in CODECS for record in records(codec) * 2]
    for reader in (old, new):
        read = reader.consume(topic, EARLIEST, count)
        assert [(each.offset, each.value, each.key) for each in read] == [
            (offset, value, b"key") for offset, value in enumerate(expected)
        ]
    times = [each.timestamp for each in new.consume(topic, EARLIEST, EACH)[:EACH]]
    knows_times = release == "0.10.0.0"
    assert times == ([NOW_MS, NOW_MS + 1, NOW_MS + 2] if knows_times else [-1] * EACH)


@pytest.mark.parametrize("release", RELEASES[2:])
def test_a_member_of_a_group_resumes_where_another_ended(
    connect: Callable[..., Client], topic: str, release: str
) -> None:
    old, new = connect(release), connect()
    new.create_topic(topic)
    for client, count in ((old, EACH), (new, EACH), (old, EACH)):
        client.produce(topic, records("none"))
        with closing(client.join(f"group-of-{topic}", topic)) as member:
            read = collect(member.poll, count, None)
            assert len(read) == count
            member.commit()
