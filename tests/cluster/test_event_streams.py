"""Streams of events while their leaders change: a version is given once, an event is never lost."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from tests.compatibility.cursus.event_stores import EventStore, RefusedError
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.cursus_client import ConnectionEndedError, CursusClient

PARTITIONS = 2
KEYS = 12
WRITERS = 3
TOPIC = "orders"


class Writer:
    """Appends to all streams as fast as it is answered, at any broker that answers."""

    def __init__(self, name: str, addresses: list[str]) -> None:
        self._name, self._addresses = name, addresses
        self.acknowledged: dict[tuple[str, int], bytes] = {}
        self.unknown: dict[tuple[str, int], bytes] = {}
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        for turn in self._turns():
            key = f"key-{turn % KEYS}"
            address = self._addresses[turn % len(self._addresses)]
            try:
                with EventStore(address, TOPIC, self._name) as store:
                    self._append(store, key, turn)
            except (OSError, ConnectionEndedError, RefusedError):
                continue  # no leader now, or this broker is down

    def _append(self, store: EventStore, key: str, turn: int) -> None:
        version = store.version(key) + 1
        payload = f"{self._name}-{turn}"
        place = key, version
        self.unknown[place] = payload.encode()
        try:
            store.append(key, version, payload)
        except RefusedError as error:
            if "version_conflict" in str(error):
                return
            raise
        self.acknowledged[place] = self.unknown.pop(place)

    def _turns(self) -> Iterator[int]:
        turn = 0
        while not self.stopping.is_set():
            turn += 1
            yield turn

    def stop(self) -> None:
        self.stopping.set()
        self.thread.join()


def test_streams_continue_at_the_next_leader(own_three_brokers: ClusterProcess) -> None:
    cluster = own_three_brokers
    addresses = [broker.listen for broker in cluster.brokers.values()]
    with EventStore(addresses[0], TOPIC) as store:
        store.create(PARTITIONS, others=" replication_factor=3")
    cluster.wait_for_replicas(TOPIC, PARTITIONS)
    writers = [Writer(f"w{number}", addresses) for number in range(WRITERS)]

    def wait_for_appends() -> None:
        before = sum(len(each.acknowledged) for each in writers)
        wait_until(
            lambda: sum(len(each.acknowledged) for each in writers) > before + 30,
            "events are appended",
        )

    def leads(broker_id: int) -> bool:
        return cluster.leaders(1, TOPIC)[0] == broker_id

    try:
        for end in (cluster.kill, cluster.drain):
            wait_for_appends()
            leader = cluster.leaders(cluster.running()[0], TOPIC)[0]
            end(leader)
            wait_for_appends()
            cluster.restart(leader)
            cluster.wait_for_replicas(TOPIC, PARTITIONS)
        # To each other broker and back: what a process knows is of an earlier epoch then.
        for broker_id in (*cluster.brokers, *cluster.brokers):
            with CursusClient(addresses[0]) as client:
                client.ask(f"ELECT_LEADER topic={TOPIC} partition=0 broker={broker_id}")
            wait_until(partial(leads, broker_id), "the broker leads")
            wait_for_appends()
    finally:
        for writer in writers:
            writer.stop()

    acknowledged: dict[tuple[str, int], bytes] = {}
    for writer in writers:
        assert acknowledged.keys().isdisjoint(writer.acknowledged), "a version was given twice"
        acknowledged |= writer.acknowledged
    with EventStore(addresses[0], TOPIC) as store:
        for number in range(KEYS):
            key = f"key-{number}"
            events = store.read(key).events
            assert [each.aggregate_version for each in events] == list(range(1, len(events) + 1))
            found = {(key, each.aggregate_version): each.payload for each in events}
            own = {place: payload for place, payload in acknowledged.items() if place[0] == key}
            assert own.items() <= found.items()
            for place in found.keys() - own.keys():
                assert found[place] in {each.unknown.get(place) for each in writers}
            assert store.version(key) == len(events)
            with pytest.raises(RefusedError, match=f"current={len(events)}"):
                store.append(key, len(events), "again")
