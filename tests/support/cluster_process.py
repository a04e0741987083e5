"""Real brokers of one cluster on a real etcd: processes that a test can kill, drain or pause."""

import os
import shutil
import signal
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.support import wire_requests
from tests.support.broker_network import BrokerNetwork
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.etcd import Etcd
from tests.support.wire_client import ConnectionClosedError, WireClient

# As short as a busy machine allows: after kill -9, a broker leads again when its lease has ended.
SESSION_MS = 3_000
ASK_TIMEOUT_S = 10.0
LATEST = -1


class ClusterProcess:
    """Brokers with the ids 1 to N, each in a rack of its own, on one etcd.

    Each broker keeps its port and its data directory through all of its runs. Nothing here sleeps
    for a fixed time: what a test needs is a condition that it waits for.
    """

    def __init__(
        self,
        folder: Path,
        count: int = 3,
        *,
        settings: Sequence[str] = (),
        etcd: Etcd | None = None,
        network: BrokerNetwork | None = None,
        kind: Callable[..., BrokerProcess] = BrokerProcess,
    ) -> None:
        """Prepare the brokers; skips the test where there is no etcd.

        Args:
            folder: for the data and the output of everything.
            count: the number of brokers.
            settings: of each broker, as NAME=VALUE.
            etcd: one that runs and is not closed here; None: one member of this cluster's own.
            network: in which the brokers are; None: all are on loopback.
            kind: of the brokers.
        """
        self._owns_etcd = etcd is None
        (folder / "etcd").mkdir(parents=True)
        host = "127.0.0.1" if network is None else network.host
        self.etcd = Etcd(folder / "etcd", host=host) if etcd is None else etcd
        self.network = network
        self.prefix = f"cluster-{uuid.uuid4().hex[:8]}"
        store = ",".join(str(each) for each in self.etcd.endpoints)
        self.brokers: dict[int, BrokerProcess] = {}
        for broker_id in range(1, count + 1):
            own = folder / f"broker-{broker_id}"
            own.mkdir()
            self.brokers[broker_id] = kind(
                own,
                listen=None if network is None else f"{network.address(broker_id)}:9092",
                settings=(
                    f"node.id={broker_id}",
                    f"broker.rack=rack-{broker_id}",
                    f"broker.session.timeout.ms={SESSION_MS}",
                    f"polylog.metadata.store=etcd://{store}/{self.prefix}",
                    *(() if network is None else ("polylog.insecure=true",)),
                    *settings,
                ),
            )
            if network is not None:
                self.brokers[broker_id].wrap = partial(network.inside, broker_id)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers, as clients take them."""
        return ",".join(each.listen for each in self.brokers.values())

    def start(self) -> None:
        """Start all brokers that do not run, at once, and wait until each sees all of them."""
        self.restart(*(each for each in self.brokers if each not in self.running()))

    # ---- faults
    # ---------------------------------------------------------------------------------------------

    def kill(self, broker_id: int) -> None:
        """Kill -9 a broker."""
        self.brokers[broker_id].kill()

    def drain(self, broker_id: int) -> None:
        """Stop a broker by SIGTERM; it gives its leaderships away where another can lead."""
        assert self.brokers[broker_id].stop() == 0, self.brokers[broker_id].stderr()

    def pause(self, broker_id: int) -> None:
        """Stop a broker in the middle of whatever it does, as SIGSTOP does; it loses its lease."""
        self.brokers[broker_id].expected_complaints.append("lease lost")
        self.brokers[broker_id].signal(signal.SIGSTOP)

    def resume(self, broker_id: int) -> None:
        """Let a paused broker go on."""
        self.brokers[broker_id].signal(signal.SIGCONT)

    def wipe(self, broker_id: int) -> None:
        """Remove the data directory of a broker that does not run, as with a new disk."""
        assert not self.brokers[broker_id].is_running
        shutil.rmtree(self.brokers[broker_id].data_dir)

    def restart(self, *broker_ids: int) -> None:
        """Start brokers again, after SIGTERM if they run; wait until they are registered anew."""
        for each in broker_ids:
            if self.brokers[each].is_running:
                self.drain(each)
        before = {each: self.registration(each) for each in broker_ids}
        for each in broker_ids:
            self.brokers[each].launch()
        for each in broker_ids:
            self.brokers[each].wait_started()
        for each in broker_ids:
            self.wait_for_registration(each, before[each])
        self.wait_for_brokers()

    def wait_for_registration(self, broker_id: int, before: bytes | None) -> None:
        """Wait until a broker is registered otherwise than before."""
        wait_until(
            lambda: self.registration(broker_id) not in {None, before}, f"{broker_id} registers"
        )

    # ---- what the brokers say
    # ---------------------------------------------------------------------------------------------

    def metadata(self, broker_id: int, topics: Iterable[str] = ()) -> dict[str, Any] | None:
        """Return what a broker answers to Metadata, or None when it does not answer."""
        names = [{"topic_id": bytes(16), "name": each} for each in topics]
        return self._ask(broker_id, {"topics": names, "allow_auto_topic_creation": False})

    def _ask(self, broker_id: int, body: dict[str, Any]) -> dict[str, Any] | None:
        try:
            with WireClient(self.brokers[broker_id].address, ASK_TIMEOUT_S) as client:
                return client.request("Metadata", 12, body)
        except (ConnectionClosedError, OSError):
            return None

    def running(self) -> list[int]:
        """Return the ids of the brokers whose process runs."""
        return [broker_id for broker_id, each in self.brokers.items() if each.is_running]

    def seen_by(self, broker_id: int) -> list[int]:
        """Return the ids of the brokers that a broker knows to be alive."""
        found = self.metadata(broker_id)
        return [] if found is None else sorted(each["node_id"] for each in found["brokers"])

    def topics(self, broker_id: int) -> list[str]:
        """Return the topics that a broker knows."""
        body = {"topics": None, "allow_auto_topic_creation": False}
        found = self._ask(broker_id, body)
        return [] if found is None else [each["name"] for each in found["topics"]]

    def controller(self) -> int | None:
        """Return the id of the controller; None when there is none, or it does not run."""
        views = [view for each in self.running() if (view := self.metadata(each)) is not None]
        found = views[0]["controller_id"] if views else None
        return found if found in self.running() else None

    def leaders(self, broker_id: int, topic: str) -> dict[int, int]:
        """Return the leader of each partition of a topic, as a broker knows it."""
        found = self.metadata(broker_id, [topic])
        if found is None:
            return {}
        [of_topic] = found["topics"]
        return {each["partition_index"]: each["leader_id"] for each in of_topic["partitions"]}

    def in_sync(self, broker_id: int, topic: str) -> dict[int, list[int]]:
        """Return the in-sync replicas of each partition of a topic, as a broker knows them."""
        found = self.metadata(broker_id, [topic])
        if found is None:
            return {}
        [of_topic] = found["topics"]
        return {
            each["partition_index"]: sorted(each["isr_nodes"]) for each in of_topic["partitions"]
        }

    def registration(self, broker_id: int) -> bytes | None:
        """Return what the store has of a broker: another value for each of its runs."""
        key = f"{self.prefix}/broker/{broker_id}"
        return self.etcd.entries(key).get(key)

    def serves(self, broker_id: int, topic: str, partition: int) -> bool:
        """Return whether a broker answers for a partition as its leader."""
        if broker_id not in self.running():
            return False
        try:
            with WireClient(self.brokers[broker_id].address, ASK_TIMEOUT_S) as client:
                answer = wire_requests.list_offset(client, topic, partition, LATEST)
        except (ConnectionClosedError, OSError):
            return False
        return bool(answer["error_code"] == 0)

    # ---- conditions
    # ---------------------------------------------------------------------------------------------

    def wait_for_brokers(self, expected: Iterable[int] | None = None) -> None:
        """Wait until each running broker sees exactly these; by default those that run."""
        running = self.running()
        wanted = sorted(running if expected is None else expected)
        wait_until(
            lambda: all(self.seen_by(each) == wanted for each in running),
            f"brokers {running} see {wanted}",
        )

    def wait_for_leaders(self, topic: str, partitions: int) -> None:
        """Wait until all running brokers agree on the leaders of a topic, and those serve it."""
        running = self.running()

        def has_leaders() -> bool:
            views = [self.leaders(each, topic) for each in running]
            return all(view == views[0] and len(view) == partitions for view in views) and all(
                self.serves(leader, topic, partition) for partition, leader in views[0].items()
            )

        wait_until(has_leaders, f"every partition of {topic} has a leader")

    def wait_for_replicas(self, topic: str, partitions: int) -> None:
        """Wait until all brokers, which must run, are in-sync replicas of a topic's partitions."""
        wanted = {each: sorted(self.brokers) for each in range(partitions)}
        wait_until(
            lambda: all(self.in_sync(each, topic) == wanted for each in self.brokers),
            f"all replicas of {topic} are in sync",
        )

    # ---- the end
    # ---------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Fail if a broker logged an error that the test did not announce."""
        for each in self.brokers.values():
            each.check()

    def close(self) -> None:
        """End everything, whatever state it is in."""
        for each in self.brokers.values():
            if each.is_running:
                os.kill(each.process.pid, signal.SIGCONT)
                each.kill()
        if self._owns_etcd:
            self.etcd.close()


@contextmanager
def running_cluster(
    folder: Path, settings: Sequence[str] = (), kind: Callable[..., BrokerProcess] = BrokerProcess
) -> Iterator[ClusterProcess]:
    """Run three brokers on an etcd of their own; they must have logged no error in the end."""
    cluster = ClusterProcess(folder, settings=settings, kind=kind)
    try:
        cluster.start()
        yield cluster
        cluster.check()
    finally:
        cluster.close()
