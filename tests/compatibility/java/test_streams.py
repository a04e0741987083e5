"""Kafka Streams: words are counted through the application's internal topic and a state store."""

import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.compatibility.committed import committed
from tests.compatibility.java.tools import JavaTools
from tests.support import wire_requests
from tests.support.broker_process import Broker, BrokerProcess, wait_until
from tests.support.wire_client import WireClient

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]

PARTITIONS = 2
WORDS = ("log", "batch", "record", "offset", "epoch")
STOP_TIMEOUT_S = 120.0
COUNT_TIMEOUT_S = 120.0
SETTINGS = (
    "commit.interval.ms=100",
    "consumer.heartbeat.interval.ms=300",
    "consumer.session.timeout.ms=3000",  # a killed application is noticed soon
)


def lines(first: int, count: int) -> list[str]:
    """Return lines of deterministic words."""
    return [
        f"{WORDS[number % len(WORDS)]} {WORDS[number * number % len(WORDS)]} line"
        for number in range(first, first + count)
    ]


def write(
    address: str, topic: str, values: list[str], security: Mapping[str, str] | None = None
) -> None:
    """Write lines, each once, and wait for the responses."""
    failures: list[object] = []
    options = {"bootstrap.servers": address, "enable.idempotence": True}
    producer = Producer(options | dict(security or {}))
    for place, value in enumerate(values):
        producer.produce(
            topic,
            value,
            partition=place % PARTITIONS,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    assert producer.flush(60) == 0
    assert failures == []


def counts_of(
    address: str, topic: str, expected: Counter[str], security: Mapping[str, str] | None = None
) -> dict[str, list[int]]:
    """Return every committed count of each word, in the order written, once all have arrived."""
    counts: dict[str, list[int]] = {}
    for message in committed(
        address, topic, at_least=expected.total(), partitions=PARTITIONS, security=security
    ):
        word = (message.key() or b"").decode()
        counts.setdefault(word, []).append(int(message.value() or b""))
    return counts


def each_once(expected: Counter[str]) -> dict[str, list[int]]:
    """Return the counts written without loss or repetition."""
    return {word: list(range(1, count + 1)) for word, count in expected.items()}


@contextmanager
def counting(
    java: JavaTools, address: str, topic: str, folder: Path, guarantee: str, *settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Let the application count while the block runs, which may kill it."""
    setting = f"processing.guarantee={guarantee}"
    command = java.command(
        *("WordCount.java", address, topic, f"{topic}-counts", str(folder), setting),
        *(*SETTINGS, *settings),
    )
    said = folder / "streams.log"
    with (
        said.open("ab") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as process,
    ):
        try:
            yield process
            if process.poll() is None:
                process.communicate(timeout=STOP_TIMEOUT_S)  # closes its standard input
                assert process.returncode == 0, said.read_text()[-5_000:]
        finally:
            process.kill()


def create(broker: Broker, topic: str) -> None:
    """Create the topic of lines and the topic of counts."""
    with WireClient(broker.address) as client:
        for name in (topic, f"{topic}-counts"):
            wire_requests.create_topic(client, name, PARTITIONS)


def has_counted(broker: Broker, topic: str, count: int) -> bool:
    """Return whether that many counts are written, committed or not."""
    with WireClient(broker.address) as client:
        ends = [
            wire_requests.end_offset(client, f"{topic}-counts", partition)
            for partition in range(PARTITIONS)
        ]
    return sum(ends) >= count


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_word_count_is_exact_without_failures(
    java: JavaTools, broker: Broker, topic: str, tmp_path: Path, guarantee: str
) -> None:
    create(broker, topic)
    written = lines(0, 300)
    expected = Counter(" ".join(written).split())

    with counting(java, broker.address, topic, tmp_path, guarantee):
        write(broker.address, topic, written)
        counts = counts_of(broker.address, f"{topic}-counts", expected)

    assert counts == each_once(expected)


@pytest.mark.slow("starts Kafka Streams again, whose members wait for sessions")
def test_word_count_is_exactly_once_across_kills_of_the_broker_and_of_the_application(
    java: JavaTools, start_broker: Callable[..., BrokerProcess], topic: str, tmp_path: Path
) -> None:
    broker = start_broker()
    create(broker, topic)
    written = [lines(0, 500), lines(500, 8_000), lines(8_500, 500)]
    expected = Counter(" ".join(line for part in written for line in part).split())

    app = partial(counting, java, broker.address, topic, tmp_path, "exactly_once_v2")
    with app() as process:
        write(broker.address, topic, written[0])
        wait_until(
            partial(has_counted, broker, topic, 1_500), "the first part is counted", COUNT_TIMEOUT_S
        )
        write(broker.address, topic, written[1])
        wait_until(
            partial(has_counted, broker, topic, 3_000), "some more is counted", COUNT_TIMEOUT_S
        )
        broker.kill()  # somewhere within the second part
        process.kill()
        process.wait()
    broker.restart()
    with app():
        write(broker.address, topic, written[2])
        counts = counts_of(broker.address, f"{topic}-counts", expected)

    assert counts == each_once(expected)
