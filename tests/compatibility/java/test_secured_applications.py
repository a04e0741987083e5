"""Kafka Streams and Kafka Connect over TLS, logged in by SCRAM, with the least of ACLs."""

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.committed import committed_values
from tests.compatibility.java.connect_worker import ConnectWorker
from tests.compatibility.java.test_connect import Files, read_file, write_file
from tests.compatibility.java.test_streams import (
    PARTITIONS,
    counting,
    counts_of,
    each_once,
    lines,
    write,
)
from tests.compatibility.java.tools import JavaTools
from tests.support.application_acls import application_acls
from tests.support.broker_process import ExternalBroker
from tests.support.locked_broker import LISTENER, LockedBroker

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    """Start the broker."""
    broker = LockedBroker(
        tmp_path_factory.mktemp("locked"),
        "group.initial.rebalance.delay.ms=0",
        "group.min.session.timeout.ms=1000",
    )
    broker.start()
    yield broker
    broker.stop()
    broker.check()


def test_streams_counts_exactly_once(
    java: JavaTools, locked: LockedBroker, topic: str, tmp_path: Path
) -> None:
    address, security = locked.of_listener[LISTENER], locked.librdkafka_options()
    locked.create_topics(topic, f"{topic}-counts", partitions=PARTITIONS)
    names = {"input": topic, "output": f"{topic}-counts", "application_id": f"{topic}-counter"}
    acls = application_acls("Kafka Streams, exactly once", "User:streams", **names)
    password = locked.create_user("streams", acls)
    written = lines(0, 300)
    expected = Counter(" ".join(written).split())
    own = (f"{name}={text}" for name, text in locked.java_properties("streams", password).items())

    with counting(java, address, topic, tmp_path, "exactly_once_v2", *own):
        write(address, topic, written, security)
        counts = counts_of(address, f"{topic}-counts", expected, security)

    assert counts == each_once(expected)


@pytest.mark.slow("starts a worker of Kafka Connect")
def test_connect_copies_lines_through_a_topic_exactly_once(
    java: JavaTools, locked: LockedBroker, topic: str, tmp_path: Path
) -> None:
    address, security = locked.of_listener[LISTENER], locked.librdkafka_options()
    locked.create_topics(topic)
    names = {"worker": f"{topic}-worker", "input": topic, "output": topic}
    names["connector"] = f"{topic}-sink"
    kinds = ("worker", "exactly-once sources", "source", "sink")
    acls = [application_acls(f"Kafka Connect: {each}", "User:connect", **names) for each in kinds]
    password = locked.create_user("connect", list(itertools.chain.from_iterable(acls)))
    own = locked.java_properties("connect", password)
    more = {
        prefix + name: text
        for prefix in ("", "producer.", "consumer.", "admin.")
        for name, text in own.items()
    }
    files = Files(tmp_path)
    files.append(50)
    at = ExternalBroker(address)
    more["exactly.once.source.support"] = "enabled"

    with ConnectWorker(tmp_path, java, at, names["worker"], **more) as worker:
        read_file(worker, files, topic)
        write_file(worker, files, topic)
        files.wait()
        values = committed_values(address, topic, at_least=50, security=security)

    assert values == files.written == files.arrived()
