"""Runs a load on a cluster: its topics, its progress, its end, and the judgement of its history."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.loads.client_load import COPIED, PARTITIONS, READERS, SENT, Load
from tests.compatibility.committed import committed
from tests.compatibility.faults.loads.kafka import RETRIABLE
from tests.compatibility.faults.loads.transactions import error_of
from tests.histories.checker import check
from tests.histories.history import Recorder
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess

TIMEOUT_S = 60
PROGRESS_TIMEOUT_S = 90
NOTHING = -1  # the committed offset of a partition of which nothing was read

Make: TypeAlias = Callable[..., Load]


class RunningLoad:
    """A load that runs; faults are recorded in its history."""

    def __init__(self, cluster: ClusterProcess, load: Load, history: Recorder) -> None:
        self.history = history
        self._cluster = cluster
        self._load = load
        self._history = history

    @contextmanager
    def fault(self, name: str) -> Iterator[None]:
        """Record a fault, which happens meanwhile, and wait until every worker has gone on."""
        self._history.write("nemesis", "crash", "info", kind="kill", fault=name)
        yield
        self._history.write("nemesis", "heal", "info", fault=name)
        look_at_offsets(self._cluster, self._history, self._load)
        self.wait_for_progress(f"after {name}")

    def wait_for_progress(self, when: str, *, of_senders: bool = False) -> None:
        """Wait until each worker has had another answer; raise the failure of one that ended.

        With `of_senders`, wait for those that only send.
        """
        before = self._history.done()
        names = [each for each in self._load.names if not of_senders or each.endswith("-sender")]

        def went_on() -> bool:
            for worker in self._load.workers:
                if worker.failure is not None:
                    raise worker.failure
            return not self._idle(names, before)

        try:
            wait_until(went_on, f"everybody goes on {when}", PROGRESS_TIMEOUT_S)
        except AssertionError as error:
            raise AssertionError(f"{self._idle(names, before)} had no answer {when}") from error

    def _idle(self, names: list[str], before: dict[str, int]) -> list[str]:
        now = self._history.done()
        return [each for each in names if now.get(each, 0) <= before.get(each, 0)]


@contextmanager
def running_load(
    cluster: ClusterProcess, make: Make, folder: Path, *, replicas: int = 1
) -> Iterator[RunningLoad]:
    """Run a load; in the end everything is read, copied, and what the clients saw is judged."""
    make_topics(cluster, replicas)
    with Recorder(folder / "history.jsonl") as history:
        load = make(cluster.bootstrap, history)
        for worker in load.workers:
            worker.start()
        try:
            running = RunningLoad(cluster, load, history)
            running.wait_for_progress("at the start")
            yield running
            finish(cluster, load)
            if replicas > 1:
                for topic in (SENT, COPIED):
                    cluster.wait_for_replicas(topic, PARTITIONS)
        finally:
            for worker in load.workers:
                worker.ask_to_stop()
        read_everything(cluster, load, history)
        findings = check(history.read())
    assert findings == [], findings


def make_topics(cluster: ClusterProcess, replicas: int = 1) -> None:
    """Make the topics of the load; with several replicas, all but one must have a record."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    config = {"min.insync.replicas": str(max(replicas - 1, 1))}
    made = admin.create_topics(
        [NewTopic(each, PARTITIONS, replicas, config=config) for each in (SENT, COPIED)]
    )
    for name, done in made.items():
        done.result(TIMEOUT_S)
        cluster.wait_for_leaders(name, PARTITIONS)


def finish(cluster: ClusterProcess, load: Load) -> None:
    """Stop the senders, and the others when everything is copied and committed."""
    for each in load.senders:
        each.ask_to_stop()
    for each in load.senders:
        each.stop()
    sent = values(cluster, load, SENT)
    if load.copies:
        copies = values(cluster, load, COPIED, at_least=sum(map(len, sent.values())))
        assert originals(copies) == sent
    ends = {partition: len(names) or NOTHING for partition, names in sent.items()}
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
        found.update((each.partition, max(each.offset, NOTHING)) for each in answers)
        return True

    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": READERS, "log_level": 0}
    )
    with closing(consumer):
        wait_until(has_answered, "the committed offsets are known")
    return found


def look_at_offsets(cluster: ClusterProcess, history: Recorder, load: Load) -> None:
    """Record the offsets that the group has committed, after the requests that did it."""
    for number in range(PARTITIONS):
        what: dict[str, Any] = {"group": READERS, "topic": SENT, "partition": number}
        history.write("look", "fetch_committed", "invoke", **what)
    found = committed_offsets(cluster)
    for each in load.others:
        each.catch_up()
    for partition, offset in found.items():
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
