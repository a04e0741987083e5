"""etcd and the brokers of one cluster, and what a client sees of them."""

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.end_to_end.blocking_client import Client, check
from benchmarks.end_to_end.targets import (
    ADDRESS,
    HOST,
    BenchmarkError,
    Target,
    free_port,
    launch,
    start_kafka_nodes,
    wait_for_line,
)
from broker.codec import Fields
from tests.support.etcd import Etcd

WAIT_SECONDS_MAX = 120.0
METADATA_VERSION = 9
TOPICS_PER_REQUEST = 100


def until(condition: Callable[[], bool], pause_seconds: float = 0.002) -> float:
    """Poll until a condition holds; return the time at which it was seen."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not condition():
        if time.monotonic() > deadline:
            raise BenchmarkError(f"not within {WAIT_SECONDS_MAX:.0f} s: {condition}")
        time.sleep(pause_seconds)
    return time.monotonic()


class Brokers:
    """Brokers of one cluster, each with a connection of this process."""

    def __init__(self, folder: Path) -> None:
        """Begin without any; `folder` is removed at the end."""
        self._folder = folder
        self.brokers: dict[int, Target] = {}
        self.clients: dict[int, Client] = {}

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """End all processes and remove their files."""
        self.close()

    def close(self) -> None:
        """End all processes and remove their files."""
        for client in self.clients.values():
            client.close()
        for broker in self.brokers.values():
            broker.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def add(self, broker_id: int, broker: Target) -> None:
        """Connect to a broker that has started."""
        self.brokers[broker_id] = broker
        self.clients[broker_id] = Client(broker.port)

    # ---- what a client sees
    # ---------------------------------------------------------------------------------------------

    def metadata(self, broker_id: int, topics: Sequence[str] | None = ()) -> Any:  # noqa: ANN401 (JSON)
        """Return one broker's Metadata of some topics, of all (None), or only of the brokers."""
        named = None if topics is None else [{"name": each} for each in topics]
        body = {"topics": named, "allow_auto_topic_creation": False}
        return self.clients[broker_id].ask("Metadata", METADATA_VERSION, body)

    def registered(self, broker_id: int) -> set[int]:
        """Return the brokers that one broker shows."""
        return {each["node_id"] for each in self.metadata(broker_id)["brokers"]}

    def controller(self, broker_id: int) -> int:
        """Return the controller that one broker shows."""
        found: int = self.metadata(broker_id)["controller_id"]
        return found

    def partitions(self, broker_id: int, topics: Sequence[str] | None) -> list[Fields]:
        """Return the partitions of topics as one broker shows them."""
        shown = self.metadata(broker_id, topics)["topics"]
        return [partition for topic in shown for partition in topic["partitions"]]

    def create(self, broker_id: int, topics: Sequence[Fields]) -> None:
        """Create topics through one broker."""
        for first in range(0, len(topics), TOPICS_PER_REQUEST):
            part = topics[first : first + TOPICS_PER_REQUEST]
            body = {"topics": part, "timeout_ms": 60_000}
            answer = self.clients[broker_id].ask("CreateTopics", 5, body)
            check(each["error_code"] for each in answer["topics"])


class Cluster(Brokers):
    """Brokers 1 to `count` on an etcd of their own."""

    def __init__(
        self, folder: Path, count: int, settings: Sequence[str] = ("polylog.durability=os",)
    ) -> None:
        """Start etcd and all brokers; return when each shows all of them. Broker 1 controls."""
        super().__init__(folder)
        self._settings = settings
        folder.mkdir(parents=True)
        self.etcd = Etcd(folder / "etcd")
        try:
            self.start(1)
            until(lambda: self.controller(1) == 1)
            for broker_id in range(2, count + 1):
                self.start(broker_id)
            until(lambda: all(self.registered(each) == set(self.brokers) for each in self.brokers))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all processes and remove their files."""
        self.etcd.close()
        super().close()

    def start(self, broker_id: int) -> float:
        """Start a broker and connect to it; return the time of its exec."""
        data = self._folder / f"broker-{broker_id}"
        store = f"etcd://{','.join(map(str, self.etcd.endpoints))}/bench"
        settings = (
            f"node.id={broker_id}",
            f"polylog.metadata.store={store}",
            *self._settings,
        )
        known = self.brokers.get(broker_id)
        port, log = known.port if known else free_port(), data.with_suffix(".log")
        command = [sys.executable, "-m", "broker", "start", "--data-dir", str(data)]
        command += ["--listen", f"{HOST}:{port}"]
        for each in settings:
            command += ["--set", each]
        since = time.monotonic()
        process = launch(command, log)
        wait_for_line(process, log, ADDRESS)
        self.add(broker_id, Target(f"broker {broker_id}", process, port, log))
        return since

    def end(self, broker_id: int, *, is_planned: bool = False) -> float:
        """Kill a broker, or stop it; return when that began. It may be started again."""
        self.clients.pop(broker_id).close()
        since = time.monotonic()
        broker = self.brokers[broker_id]
        if is_planned:
            broker.process.terminate()
        else:
            broker.kill()
        return since


class KafkaCluster(Brokers):
    """Nodes 1 to `count` of Apache Kafka, each broker and controller."""

    def __init__(self, jars: Path, folder: Path, count: int) -> None:
        """Start all nodes; return when each shows all of them."""
        super().__init__(folder)
        try:
            for node_id, node in enumerate(start_kafka_nodes(jars, folder, count), 1):
                self.add(node_id, node)
            until(lambda: all(self.registered(each) == set(self.brokers) for each in self.brokers))
        except BaseException:
            self.close()
            raise


def new_topic(name: str, partitions: int) -> Fields:
    """Return a topic of CreateTopics whose partitions the cluster places."""
    return {"name": name, "num_partitions": partitions, "replication_factor": 1}


def topic_on(name: str, partitions: int, *brokers: int) -> Fields:
    """Return a topic of CreateTopics whose partitions are all on these brokers."""
    assignments = [
        {"partition_index": each, "broker_ids": list(brokers)} for each in range(partitions)
    ]
    return {
        "name": name,
        "num_partitions": -1,
        "replication_factor": -1,
        "assignments": assignments,
    }
