"""The time from a change of metadata through one broker until all brokers show it.

The floor is one transaction in the same etcd until a watch in this process has its event.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from threading import Thread

from benchmarks.cluster.brokers import Cluster, new_topic, until
from benchmarks.end_to_end import machine
from benchmarks.end_to_end.blocking_client import Client
from benchmarks.end_to_end.trials import Facts, Programs
from broker import codec
from broker.codec import Fields
from broker.storage.metadata import Put
from broker.storage.metadata.etcd.gateway import Gateway
from broker.storage.metadata.etcd.store import EtcdMetaStore
from tests.support.etcd import Etcd

BROKERS = 3
CHANGES = 60
PARTITIONS = 3
PAUSE_SECONDS = 0.0005  # between two questions: the brokers share the processor with the client
KEY = b"key"
VALUE_BYTES = 120
Request = tuple[str, int, Fields]  # API, version, body
_TOPIC = 2  # the type of a resource in the APIs of configurations


def measure(_programs: Programs, folder: Path, scale: float) -> Facts:
    """Return times in milliseconds, and the processor time of all brokers per change."""
    count = max(int(CHANGES * scale), 10)
    created: list[float] = []
    altered: list[float] = []
    floor: list[float] = []
    with Cluster(folder / "cluster", BROKERS) as cluster, closing(_Floor(cluster.etcd)) as bare:
        used = 0.0
        bare.seconds()  # opens the connections
        for number in range(count):
            floor.append(bare.seconds())
            before = _processor_seconds(cluster)
            created.append(_create(cluster, f"topic-{number}"))
            altered.append(_alter(cluster, f"topic-{number}", str(1_000_000 + number)))
            used += _processor_seconds(cluster) - before
    return {
        "create_p50_ms": median(created) * 1e3,
        "create_p99_ms": quantiles(created, n=100)[98] * 1e3,
        "alter_p50_ms": median(altered) * 1e3,
        "alter_p99_ms": quantiles(altered, n=100)[98] * 1e3,
        "floor_p50_ms": median(floor) * 1e3,
        "cpu_ms": used / count / 2 * 1e3,
        "wrong": 0.0,
    }


def _processor_seconds(cluster: Cluster) -> float:
    return sum(machine.process_seconds(each.pid) for each in cluster.brokers.values())


class _Floor:
    """A watch in a loop of its own thread, and transactions that it sees."""

    def __init__(self, etcd: Etcd) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever)
        self._thread.start()
        self._store = EtcdMetaStore(Gateway(etcd.endpoints), b"/floor/")
        self._watch = self._store.watch(KEY, 1)

    def seconds(self) -> float:
        """Return the time of one transaction until the watch has its event."""
        return asyncio.run_coroutine_threadsafe(self._transaction(), self._loop).result(60)

    async def _transaction(self) -> float:
        event = asyncio.ensure_future(anext(self._watch))
        await asyncio.sleep(0)
        since = time.monotonic()
        await self._store.transact([], [Put(KEY, bytes(VALUE_BYTES))])
        await event
        return time.monotonic() - since

    def close(self) -> None:
        """End the thread."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _close(self) -> None:
        await self._watch.aclose()
        await self._store.close()


def _create(cluster: Cluster, name: str) -> float:
    """Create a topic; return the seconds until all brokers show its leaders."""
    change = "CreateTopics", 5, {"topics": [new_topic(name, PARTITIONS)], "timeout_ms": 60_000}
    question = "Metadata", 9, {"topics": [{"name": name}], "allow_auto_topic_creation": False}

    def is_shown(answer: Fields) -> bool:
        [topic] = answer["topics"]
        leaders = [each["leader_id"] for each in topic["partitions"]]
        return len(leaders) == PARTITIONS and min(leaders) > 0

    return _seconds_until_shown(cluster, change, question, is_shown)


def _alter(cluster: Cluster, name: str, value: str) -> float:
    """Alter a topic's configuration; return the seconds until all brokers show it."""
    resource = {"resource_type": _TOPIC, "resource_name": name}
    config = {"name": "retention.ms", "config_operation": 0, "value": value}
    resources = [{**resource, "configs": [config]}]
    change = "IncrementalAlterConfigs", 0, {"resources": resources, "validate_only": False}
    resources = [{**resource, "configuration_keys": ["retention.ms"]}]
    question = "DescribeConfigs", 2, {"resources": resources, "include_synonyms": False}

    def is_shown(answer: Fields) -> bool:
        [result] = answer["results"]
        return [each["value"] for each in result["configs"]] == [value]

    return _seconds_until_shown(cluster, change, question, is_shown)


def _seconds_until_shown(
    cluster: Cluster, change: Request, question: Request, is_shown: Callable[[Fields], bool]
) -> float:
    """Send a change through the first broker, and ask one broker after another until it shows it.

    All of them together are not asked: the answers would delay what is measured.
    """
    frame = codec.request_frame(*question, correlation_id=1)

    def is_shown_by(client: Client) -> bool:
        client.send(frame)
        return is_shown(codec.read_response(*question[:2], client.receive()).body)

    with Client(cluster.brokers[1].port) as changing:
        since = shown = time.monotonic()
        changing.send(codec.request_frame(*change, correlation_id=1))
        for client in cluster.clients.values():
            shown = until(partial(is_shown_by, client), PAUSE_SECONDS)
        changing.receive()
        return shown - since
