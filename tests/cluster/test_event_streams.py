"""Streams of events while their leaders change: a version is given once, an event is never lost.

pytest tests/cluster/test_event_streams.py --cluster-faults 10     more kills
"""

from functools import partial
from random import Random

import pytest

from tests.cluster.loads.stream_load import StreamClient, read_all, wait_for_appends
from tests.compatibility.cursus.event_stores import EventStore, RefusedError
from tests.histories.streams import check_streams
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.cursus_client import CursusClient

PARTITIONS = 2
CLIENTS = 4
KILLS_PER_FAULT = 2
TOPIC = "orders"


def kill(cluster: ClusterProcess, clients: list[StreamClient], choices: Random) -> None:
    """Kill -9 a broker, mostly a leader, at any moment; start it again at once, or later."""
    leaders = cluster.leaders(cluster.running()[0], TOPIC)
    broker_id = choices.choice([*leaders.values(), *cluster.brokers])
    wait_for_appends(clients, choices.randint(1, 100))
    cluster.kill(broker_id)
    if choices.random() < 0.5:
        wait_for_appends(clients, 30)
    cluster.restart(broker_id)
    cluster.wait_for_replicas(TOPIC, PARTITIONS)


def drain_a_leader(cluster: ClusterProcess, clients: list[StreamClient]) -> None:
    """Stop a leader by SIGTERM: it gives away what it leads."""
    leader = cluster.leaders(cluster.running()[0], TOPIC)[0]
    cluster.drain(leader)
    wait_for_appends(clients, 30)
    cluster.restart(leader)
    cluster.wait_for_replicas(TOPIC, PARTITIONS)


def elect_each(cluster: ClusterProcess, clients: list[StreamClient]) -> None:
    """Have each broker lead, twice: what a process knows is of an earlier epoch then."""

    def leads(broker_id: int) -> bool:
        return cluster.leaders(1, TOPIC)[0] == broker_id

    for broker_id in (*cluster.brokers, *cluster.brokers):
        with CursusClient(cluster.brokers[1].listen) as client:
            client.ask(f"ELECT_LEADER topic={TOPIC} partition=0 broker={broker_id}")
        wait_until(partial(leads, broker_id), "the broker leads")
        wait_for_appends(clients, 30)


@pytest.mark.slow("brokers are killed, and come back")
@pytest.mark.timeout(0)
def test_streams_continue_at_the_next_leader(
    own_three_brokers: ClusterProcess, choices: Random, pytestconfig: pytest.Config
) -> None:
    cluster = own_three_brokers
    addresses = [broker.listen for broker in cluster.brokers.values()]
    with EventStore(addresses[0], TOPIC) as store:
        store.create(PARTITIONS, others=" replication_factor=3")
    cluster.wait_for_replicas(TOPIC, PARTITIONS)
    clients = [
        StreamClient(f"c{number}", addresses, TOPIC, choices.getrandbits(32))
        for number in range(CLIENTS)
    ]
    try:
        wait_for_appends(clients, 30)
        for _ in range(KILLS_PER_FAULT * pytestconfig.getoption("--cluster-faults")):
            kill(cluster, clients, choices)
        drain_a_leader(cluster, clients)
        elect_each(cluster, clients)
    finally:
        for client in clients:
            client.stop()

    with EventStore(addresses[0], TOPIC) as store:
        last = read_all(store, clients)
        for key, payloads in last.items():
            with pytest.raises(RefusedError, match=f"current={len(payloads)}"):
                store.append(key, len(payloads), "again")
    appends = [each for client in clients for each in client.appends]
    looks = [each for client in clients for each in client.looks]
    assert check_streams(appends, looks, last) == []
