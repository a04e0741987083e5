"""Kafka Streams and Kafka Connect over TLS, logged in by SCRAM, with the least of ACLs.

They run with the ACLs of the document, and ask for each of them.
"""

import itertools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from tests.support.asked_rights import EVERY_DECISION, asked_by, without_use
from tests.support.broker_process import ExternalBroker, wait_until
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
        EVERY_DECISION,
    )
    broker.start()
    yield broker
    broker.stop()
    broker.check()


def unused(locked: LockedBroker, user: str, acls: list[dict[str, Any]]) -> list[str]:
    """Return the ACLs of a user that none of its requests has needed."""
    return without_use(acls, asked_by(f"User:{user}", locked.data_dir / "audit.jsonl"))


@pytest.mark.slow("starts an application of Kafka Streams")
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
    purges = "repartition.purge.interval.ms=200"  # what has been read from its own topics

    with counting(java, address, topic, tmp_path, "exactly_once_v2", purges, *own):
        write(address, topic, written, security)
        counts = counts_of(address, f"{topic}-counts", expected, security)
        wait_until(lambda: not unused(locked, "streams", acls), "it has asked for each right")

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
    rows = [application_acls(f"Kafka Connect: {each}", "User:connect", **names) for each in kinds]
    acls = list(itertools.chain.from_iterable(rows))
    password = locked.create_user("connect", acls)
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
    assert unused(locked, "connect", acls) == []
