"""Clients of every library on three brokers that are drained, killed, restarted and paused.

The clients' requests and results are a history that the checker of tests/histories judges: nothing
acknowledged is lost, nothing of an idempotent producer is stored twice, each partition has the
order in which it was sent, committed offsets never go back, and transactions are atomic. An error
that a library does not retry ends its worker, and the test.

    pytest tests/cluster/test_clients.py --cluster-faults 20     more faults for each client
"""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeAlias

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.loads import aiokafka_load, confluent_load, program_load
from tests.cluster.loads.client_load import COPIED, PARTITIONS, READERS, SENT, Load
from tests.cluster.loads.faults import faults_of_run
from tests.compatibility.clients.go_clients import compiled
from tests.compatibility.committed import committed
from tests.compatibility.faults.loads.kafka import RETRIABLE
from tests.compatibility.faults.loads.transactions import error_of
from tests.compatibility.java.tools import find as find_java
from tests.compatibility.programs import UnavailableError
from tests.histories.checker import check
from tests.histories.history import Recorder
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess

PROGRESS_TIMEOUT_S = 90
TIMEOUT_S = 60

Make: TypeAlias = Callable[..., Load]

CLASSIC_JAVA = ("group.protocol=classic", "session.timeout.ms=6000", "heartbeat.interval.ms=300")


def java(*options: str) -> Callable[[], Make]:
    """Return what finds a Java client; the options are of its consumers."""

    def find() -> Make:
        tools = find_java()

        def command(*arguments: str) -> list[str]:
            return tools.command("Load.java", *arguments, *options)

        return partial(program_load.load, name="java", command=command)

    return find


def go(library: str) -> Callable[[], Make]:
    """Return what finds a client in Go."""

    def find() -> Make:
        program = str(compiled())

        def command(*arguments: str) -> list[str]:
            return [program, library, "load", *arguments]

        return partial(program_load.load, name=library, command=command)

    return find


def python(make: Make) -> Callable[[], Make]:
    """Return what finds a client that is installed with the tests."""
    return lambda: make


# What finds each client; UnavailableError where it cannot be had.
CLIENTS: dict[str, Callable[[], Make]] = {
    "librdkafka": python(partial(confluent_load.load, protocol="classic")),
    "librdkafka-consumer": python(partial(confluent_load.load, protocol="consumer")),
    "aiokafka": python(aiokafka_load.load),
    "java": java(*CLASSIC_JAVA),
    "java-consumer": java("group.protocol=consumer"),
    "franz-go": go("franz-go"),
    "sarama": go("sarama"),
}
COPIES = False  # whether the clients run transactions, too


@pytest.fixture
def make(client: str) -> Make:
    """Return what makes the load of a client, or skip with the reason why it cannot be had."""
    try:
        return CLIENTS[client]()
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.slow("brokers are killed under load, --cluster-faults times for each client")
@pytest.mark.timeout(0)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_loses_and_repeats_nothing_while_brokers_come_and_go(
    make: Make,
    own_three_brokers: ClusterProcess,
    tmp_path: Path,
    choices: Random,
    request: pytest.FixtureRequest,
) -> None:
    cluster = own_three_brokers
    faults = faults_of_run(choices, request.config.getoption("--cluster-faults"))
    make_topics(cluster)
    with Recorder(tmp_path / "history.jsonl") as history:
        load = make(cluster.bootstrap, history, copies=COPIES)
        for worker in load.workers:
            worker.start()
        try:
            wait_for_progress(load, history, "at the start")
            for fault in faults:
                name = fault.__name__
                history.write("nemesis", "crash", "info", kind="kill", fault=name)
                fault(cluster, choices)
                history.write("nemesis", "heal", "info", fault=name)
                look_at_offsets(cluster, history)
                wait_for_progress(load, history, f"after {name}")
            finish(cluster, load)
        finally:
            for worker in load.workers:
                worker.ask_to_stop()
        read_everything(cluster, load, history)
        findings = check(history.read())

    assert findings == []
    cluster.check()


def make_topics(cluster: ClusterProcess) -> None:
    """Make the topics of the load."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    made = admin.create_topics([NewTopic(each, PARTITIONS, 1) for each in (SENT, COPIED)])
    for name, done in made.items():
        done.result(TIMEOUT_S)
        cluster.wait_for_leaders(name, PARTITIONS)


def wait_for_progress(load: Load, history: Recorder, when: str) -> None:
    """Wait until each worker has had another answer; raise the failure of one that ended."""
    before = history.done()

    def went_on() -> bool:
        for worker in load.workers:
            if worker.failure is not None:
                raise worker.failure
        return not idle_workers(load, before, history.done())

    try:
        wait_until(went_on, f"everybody goes on {when}", PROGRESS_TIMEOUT_S)
    except AssertionError as error:
        waiting = idle_workers(load, before, history.done())
        raise AssertionError(f"{waiting} had no answer {when}") from error


def idle_workers(load: Load, before: dict[str, int], now: dict[str, int]) -> list[str]:
    """Return the names of the workers without an answer since then."""
    return [each for each in load.names if now.get(each, 0) <= before.get(each, 0)]


def finish(cluster: ClusterProcess, load: Load) -> None:
    """Stop the senders, and the others when everything is copied and committed."""
    for each in load.senders:
        each.ask_to_stop()
    for each in load.senders:
        each.stop()
    sent = values(cluster, load, SENT)
    if COPIES:
        copies = values(cluster, load, COPIED, at_least=sum(map(len, sent.values())))
        assert originals(copies) == sent
    ends = {partition: len(names) for partition, names in sent.items()}
    wait_until(lambda: committed_offsets(cluster) == ends, "the readers have committed everything")
    for each in load.others:
        each.ask_to_stop()
    for each in load.others:
        each.stop()


def originals(copies: dict[int, list[str]]) -> dict[int, list[str]]:
    """Return the names of the records of which these are copies."""
    found: dict[int, list[str]] = {}
    for partition, names in copies.items():
        of = [name.split(",")[2].split(":") for name in names]
        found[partition] = [f"{SENT},{partition},{worker},{number}" for worker, number in of]
    return found


def values(
    cluster: ClusterProcess, load: Load, topic: str, *, at_least: int = 0
) -> dict[int, list[str]]:
    """Return the names of the committed records of each partition."""
    found: dict[int, list[str]] = {each: [] for each in range(PARTITIONS)}
    read = committed(cluster.bootstrap, topic, at_least=at_least, partitions=PARTITIONS)
    for each in read:
        found[each.partition() or 0].append(load.name_of(each.value()) or "")
    return found


def committed_offsets(cluster: ClusterProcess) -> dict[int, int]:
    """Return the offset of the readers' group in each partition, -1 if there is none."""
    found: dict[int, int] = {}
    places = [TopicPartition(SENT, each) for each in range(PARTITIONS)]

    def has_answered() -> bool:
        try:
            answers = consumer.committed(places, TIMEOUT_S)
        except KafkaException as error:
            if error_of(error).code() not in RETRIABLE:
                raise
            return False  # the coordinator loads the group
        found.update((each.partition, max(each.offset, -1)) for each in answers)
        return True

    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": READERS, "log_level": 0}
    )
    with closing(consumer):
        wait_until(has_answered, "the committed offsets are known")
    return found


def look_at_offsets(cluster: ClusterProcess, history: Recorder) -> None:
    """Record the offsets that the group has committed."""
    for each in range(PARTITIONS):
        what = {"group": READERS, "topic": SENT, "partition": each}
        history.write("look", "fetch_committed", "invoke", **what)
    for partition, offset in committed_offsets(cluster).items():
        what = {"group": READERS, "topic": SENT, "partition": partition}
        history.write("look", "fetch_committed", "ok", **what, offset=offset)


def read_everything(cluster: ClusterProcess, load: Load, history: Recorder) -> None:
    """Read every log from its beginning to its end."""
    for topic in (SENT, COPIED):
        logs: dict[int, list[tuple[int, str | None]]] = {each: [] for each in range(PARTITIONS)}
        for each in committed(cluster.bootstrap, topic, at_least=0, partitions=PARTITIONS):
            record = (each.offset() or 0, load.name_of(each.value()))
            logs[each.partition() or 0].append(record)
        for partition, records in logs.items():
            where = {"topic": topic, "partition": partition}
            history.write("reader of all", "assign", "ok", **where, position=0)
            history.write("reader of all", "poll", "ok", **where, records=records, end=True)
