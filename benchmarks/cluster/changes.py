"""The time from a change of metadata through one broker until all brokers show it.

The floor is one transaction in the same etcd until a watch in this process has its event.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles
from threading import Thread

from benchmarks.cluster.brokers import Cluster, new_topic, until
from benchmarks.end_to_end import machine
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
PAUSE_SECONDS = 0.0002  # between two questions: the brokers share the processor with the client
KEY = b"key"
VALUE_BYTES = 120
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
    body = {"topics": [new_topic(name, PARTITIONS)], "timeout_ms": 60_000}

    def is_shown(broker_id: int) -> bool:
        partitions = cluster.partitions(broker_id, [name])
        return len(partitions) == PARTITIONS and all(each["leader_id"] >= 0 for each in partitions)

    return _seconds_until_shown(cluster, "CreateTopics", 5, body, is_shown)


def _alter(cluster: Cluster, name: str, value: str) -> float:
    """Alter a topic's configuration; return the seconds until all brokers show it."""
    config = {"name": "retention.ms", "value": value}
    resource = {"resource_type": _TOPIC, "resource_name": name}
    body = {
        "resources": [{**resource, "configs": [{**config, "config_operation": 0}]}],
        "validate_only": False,
    }
    asked = {
        "resources": [{**resource, "configuration_keys": ["retention.ms"]}],
        "include_synonyms": False,
    }

    def is_shown(broker_id: int) -> bool:
        [result] = cluster.clients[broker_id].ask("DescribeConfigs", 2, asked)["results"]
        return [each["value"] for each in result["configs"]] == [value]

    return _seconds_until_shown(cluster, "IncrementalAlterConfigs", 0, body, is_shown)


def _seconds_until_shown(
    cluster: Cluster, api: str, version: int, body: Fields, is_shown: Callable[[int], bool]
) -> float:
    """Send a change through the first broker, and ask the others until all show it."""
    first, *others = cluster.clients
    request = codec.request_frame(api, version, body, correlation_id=1)
    since = time.monotonic()
    cluster.clients[first].send(request)
    for each in others:
        until(lambda each=each: is_shown(each), PAUSE_SECONDS)  # type: ignore[misc]
    cluster.clients[first].receive()
    return until(lambda: is_shown(first), PAUSE_SECONDS) - since
