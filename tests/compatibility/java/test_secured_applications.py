"""Kafka Streams and Kafka Connect over TLS, logged in by SCRAM, with the least of ACLs.

They run with the ACLs of the document, and ask for each of them; without any of them they stop. A
run takes away some, which its seed chooses: --removed-rights 10 takes away each.
"""

import itertools
import re
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
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
from tests.support.acl_broker import OPERATIONS
from tests.support.application_acls import application_acls, removals, without
from tests.support.asked_rights import EVERY_DECISION, asked_by, without_use
from tests.support.broker_process import ExternalBroker, wait_until
from tests.support.locked_broker import LISTENER, LockedBroker

# The first run may fetch the jars.
pytestmark = [pytest.mark.jvm, pytest.mark.timeout(900)]


LIMIT_S = 300.0  # to stop
GRACE_S = 5.0
STREAMS = "Kafka Streams, exactly once"
STREAMS_RIGHTS, CONNECT_RIGHTS = 8, 10
REFUSED = re.compile(r"(Topic|Group|TransactionalId|Cluster)AuthorizationException")


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
    acls = application_acls(STREAMS, "User:streams", **names)
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


@pytest.mark.slow("starts an application of Kafka Streams")
def test_streams_stops_without_any_of_its_rights(
    java: JavaTools,
    locked: LockedBroker,
    topic: str,
    tmp_path: Path,
    choices: Random,
    pytestconfig: pytest.Config,
) -> None:
    address, security = locked.of_listener[LISTENER], locked.librdkafka_options()

    for place in removals(STREAMS_RIGHTS, choices, pytestconfig):
        name, folder = f"{topic}-{place}", tmp_path / str(place)
        folder.mkdir()
        locked.create_topics(name, f"{name}-counts", partitions=PARTITIONS)
        names = {"input": name, "output": f"{name}-counts", "application_id": f"{name}-counter"}
        acls = application_acls(STREAMS, f"User:streams-{place}", **names)
        assert len(acls) == STREAMS_RIGHTS
        removed, left = without(acls, place)
        password = locked.create_user(f"streams-{place}", left)
        own = locked.java_properties(f"streams-{place}", password).items()
        given = ("on.error=exit", *(f"{name}={text}" for name, text in own))
        written = lines(0, 30)
        expected = Counter(" ".join(written).split())

        with counting(java, address, name, folder, "exactly_once_v2", *given) as process:
            write(address, name, written, security)
            if removed["operation"] == OPERATIONS["Delete"]:  # it goes on, as the document says
                found = counts_of(address, f"{name}-counts", expected, security)
                assert found == each_once(expected)
                continue
            assert process.wait(LIMIT_S) == 1, removed
        assert REFUSED.search((folder / "streams.log").read_text()), removed


def connect_acls(principal: str, topic: str) -> list[dict[str, Any]]:
    """Return what a worker with a source and a sink needs."""
    names = {"worker": f"{topic}-worker", "input": topic, "output": topic}
    names["connector"] = f"{topic}-sink"
    kinds = ("worker", "exactly-once sources", "source", "sink")
    rows = [application_acls(f"Kafka Connect: {each}", principal, **names) for each in kinds]
    return list(itertools.chain.from_iterable(rows))


def connect_options(locked: LockedBroker, user: str, acls: list[dict[str, Any]]) -> dict[str, str]:
    """Create the user of a worker; return the settings."""
    own = locked.java_properties(user, locked.create_user(user, acls))
    more = {
        prefix + name: text
        for prefix in ("", "producer.", "consumer.", "admin.")
        for name, text in own.items()
    }
    return more | {"exactly.once.source.support": "enabled"}


@pytest.mark.slow("starts a worker of Kafka Connect")
def test_connect_copies_lines_through_a_topic_exactly_once(
    java: JavaTools, locked: LockedBroker, topic: str, tmp_path: Path
) -> None:
    address, security = locked.of_listener[LISTENER], locked.librdkafka_options()
    locked.create_topics(topic)
    acls = connect_acls("User:connect", topic)
    more = connect_options(locked, "connect", acls)
    files = Files(tmp_path)
    files.append(50)
    at = ExternalBroker(address)

    with ConnectWorker(tmp_path, java, at, f"{topic}-worker", **more) as worker:
        read_file(worker, files, topic)
        write_file(worker, files, topic)
        files.wait()
        values = committed_values(address, topic, at_least=50, security=security)

    assert values == files.written == files.arrived()
    wait_until(lambda: not unused(locked, "connect", acls), "what it has asked for is recorded")


def has_begun(worker: ConnectWorker) -> bool:
    """Return whether a worker serves, or does not because of a right that it lacks."""
    return is_refused(worker) or worker.serves_or_has_ended()


def is_refused(worker: ConnectWorker) -> bool:
    """Return whether a worker has said that it lacks a right: it ends, or tries again for ever."""
    return REFUSED.search(worker.said()) is not None


@pytest.mark.slow("starts a worker of Kafka Connect")
def test_connect_stops_without_any_of_its_rights(
    java: JavaTools,
    locked: LockedBroker,
    topic: str,
    tmp_path: Path,
    choices: Random,
    pytestconfig: pytest.Config,
) -> None:
    for place in removals(CONNECT_RIGHTS, choices, pytestconfig):
        name, folder = f"{topic}-{place}", tmp_path / str(place)
        folder.mkdir()
        locked.create_topics(name)
        acls = connect_acls(f"User:connect-{place}", name)
        assert len(acls) == CONNECT_RIGHTS
        removed, left = without(acls, place)
        more = connect_options(locked, f"connect-{place}", left)
        files = Files(folder)
        files.append(50)
        at = ExternalBroker(locked.of_listener[LISTENER])
        worker = ConnectWorker(folder, java, at, f"{name}-worker", **more)
        worker.start()
        try:
            begins = partial(has_begun, worker)
            wait_until(begins, f"its start is over without {removed}", LIMIT_S)
            for configure in (read_file, write_file):
                try:
                    configure(worker, files, name)
                except AssertionError:  # it ends, or cannot keep what it is given
                    assert is_refused(worker), removed
            if removed["operation"] == OPERATIONS["DescribeConfigs"]:  # as the document says
                files.wait()
                continue
            wait_until(partial(is_refused, worker), f"it is refused without {removed}", LIMIT_S)
            time.sleep(GRACE_S)  # it would go on, were the right of no use
        finally:
            worker.kill()
        assert files.arrived() == []
