"""Cuts between the brokers of a cluster, which etcd and clients reach all the time.

After each cut everybody has everything again within HEALED_S of its end.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from tests.cluster.loads.client_load import COPIED, PARTITIONS, SENT
from tests.cluster.loads.replica_faults import Fault, follower, leader
from tests.cluster.loads.running import RunningLoad
from tests.support.broker_network import BrokerNetwork
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess

HEALED_S = 30
LAG_MS = 3_000  # replica.lag.time.max.ms
CUT_S = 8  # longer than that, and than the session of a broker


def cut_a_path(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Cut two brokers from each other: each removes the other one from what it leads."""
    one, other = choices.sample(list(cluster.brokers), 2)
    with cut(cluster, load) as network:
        network.cut_both_ways(one, [other])
        load.wait_for_progress(f"while {one} and {other} are cut off", of_senders=True)


def cut_one_way(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Drop what a follower gets from a leader, and nothing else."""
    one, other = choices.sample(list(cluster.brokers), 2)
    with cut(cluster, load) as network:
        network.cut(one, other)
        load.wait_for_progress(f"while {other} hears nothing of {one}", of_senders=True)


def cut_off_a_leader(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Cut a leader from all other brokers, and not from etcd."""
    one = leader(cluster, choices)
    with cut(cluster, load) as network:
        network.cut_both_ways(one, [each for each in cluster.brokers if each != one])


def flap(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Cut a follower off and on, each time for about as long as it may lag."""
    one = follower(cluster, choices)
    others = [each for each in cluster.brokers if each != one]
    with cut(cluster, load, seconds=0) as network:
        for _ in range(3):
            network.cut_both_ways(one, others)
            time.sleep(LAG_MS / 1000 * choices.uniform(0.2, 1.5))
            network.heal()
            time.sleep(choices.uniform(0.1, 1))


@contextmanager
def cut(
    cluster: ClusterProcess, load: RunningLoad, seconds: float = CUT_S
) -> Iterator[BrokerNetwork]:
    """Lend the network for cuts, which are healed after a time; wait until all have everything."""
    assert cluster.network is not None
    try:
        begun = time.monotonic()
        yield cluster.network
        time.sleep(max(begun + seconds - time.monotonic(), 0))
    finally:
        cluster.network.heal()
    deadline = time.monotonic() + HEALED_S
    wanted = {each: sorted(cluster.brokers) for each in range(PARTITIONS)}
    for topic in (SENT, COPIED):
        for each in cluster.brokers:
            wait_until(
                lambda topic=topic, each=each: cluster.in_sync(each, topic) == wanted,  # type: ignore[misc]
                f"all replicas of {topic} are in sync",
                deadline - time.monotonic(),
            )
    load.wait_for_progress("after the cut", of_senders=True)


CUTS: tuple[Fault, ...] = (cut_a_path, cut_off_a_leader, cut_one_way, flap)
