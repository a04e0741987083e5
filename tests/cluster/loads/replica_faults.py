"""What happens to the brokers of a cluster whose topics have replicas on all of them.

While one broker is gone the others serve everything: producers go on before it comes back. A fault
ends when all brokers are back and have everything again.
"""

import errno
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import TypeAlias

from tests.cluster.loads.client_load import COPIED, PARTITIONS, SENT
from tests.cluster.loads.running import RunningLoad
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ClusterProcess
from tests.support.faulty_broker import FaultyBroker
from tests.support.wire_client import WireClient

BRIEF_S = 0.8  # a session is a good deal longer
GIVEN_UP_S = 20
PLACES = range(PARTITIONS)
Fault: TypeAlias = Callable[[ClusterProcess, RunningLoad, Random], None]


def kill_a_leader(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Kill -9 the leader of a partition; another one is elected when its lease has ended."""
    broker_id = leader(cluster, choices)
    cluster.kill(broker_id)
    with replaced(cluster, load, broker_id):
        cluster.restart(broker_id)


def kill_a_follower(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Kill -9 a broker that does not lead a partition; the leader goes on without it."""
    broker_id = follower(cluster, choices)
    cluster.kill(broker_id)
    with replaced(cluster, load, broker_id):
        cluster.restart(broker_id)


def kill_and_restart(cluster: ClusterProcess, _: RunningLoad, choices: Random) -> None:
    """Kill -9 a leader and start it again at once: before its lease has ended."""
    broker_id = leader(cluster, choices)
    cluster.kill(broker_id)
    cluster.restart(broker_id)


def pause_a_leader(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Stop a leader past its lease by SIGSTOP; it goes on while another one leads."""
    pause_past_its_lease(cluster, load, leader(cluster, choices))


def pause_a_follower(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Stop a broker past its lease by SIGSTOP that does not lead a partition."""
    pause_past_its_lease(cluster, load, follower(cluster, choices))


def pause_past_its_lease(cluster: ClusterProcess, load: RunningLoad, broker_id: int) -> None:
    """Stop a broker by SIGSTOP until another one has taken its place."""
    before = cluster.registration(broker_id)
    cluster.pause(broker_id)
    with replaced(cluster, load, broker_id):
        cluster.resume(broker_id)
        cluster.wait_for_registration(broker_id, before)
        cluster.wait_for_brokers()


def drain_a_leader(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Stop a leader by SIGTERM: it gives away what it leads."""
    broker_id = leader(cluster, choices)
    cluster.drain(broker_id)
    with replaced(cluster, load, broker_id):
        cluster.restart(broker_id)


def roll(cluster: ClusterProcess, _: RunningLoad, choices: Random) -> None:
    """Stop and start each broker in turn, as an upgrade does."""
    for each in choices.sample(list(cluster.brokers), len(cluster.brokers)):
        cluster.restart(each)
        wait_for_replicas(cluster)


def kill_all(cluster: ClusterProcess, _: RunningLoad, __: Random) -> None:
    """Kill -9 all brokers and start them again."""
    for each in cluster.brokers:
        cluster.kill(each)
    cluster.restart(*cluster.brokers)


def kill_two(cluster: ClusterProcess, _: RunningLoad, choices: Random) -> None:
    """Kill -9 two brokers at once: what is left is too little for acknowledgements."""
    gone = choices.sample(list(cluster.brokers), 2)
    for each in gone:
        cluster.kill(each)
    cluster.wait_for_brokers()
    cluster.restart(*gone)


def lose_a_disk(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Kill -9 a follower and start it again without its data: it copies everything."""
    broker_id = follower(cluster, choices)
    cluster.kill(broker_id)
    cluster.wipe(broker_id)
    with replaced(cluster, load, broker_id):
        cluster.restart(broker_id)


def lose_a_disk_at_once(cluster: ClusterProcess, _: RunningLoad, choices: Random) -> None:
    """Kill -9 a leader and start it again without its data, before anybody knows that."""
    broker_id = leader(cluster, choices)
    cluster.kill(broker_id)
    cluster.wipe(broker_id)
    cluster.restart(broker_id)


def pause_briefly(cluster: ClusterProcess, _: RunningLoad, choices: Random) -> None:
    """Stop a leader by SIGSTOP for less than its session."""
    broker_id = leader(cluster, choices)
    cluster.pause(broker_id)
    time.sleep(choices.uniform(0.1, BRIEF_S))
    cluster.resume(broker_id)
    wait_for_replicas(cluster)


def silence_the_store(cluster: ClusterProcess, load: RunningLoad, _: Random) -> None:
    """Stop etcd by SIGSTOP for less than a session."""
    expect_lost_leases(cluster)  # on a busy machine
    cluster.etcd.send(0, signal.SIGSTOP)
    time.sleep(BRIEF_S)
    cluster.etcd.send(0, signal.SIGCONT)
    load.wait_for_progress("after etcd was silent", of_senders=True)
    wait_for_replicas(cluster)


def lose_the_store(cluster: ClusterProcess, _: RunningLoad, __: Random) -> None:
    """Stop etcd by SIGSTOP until all brokers are fenced; they resume by themselves.

    Whether a lease has ended by then is a race of its renewal and its end.
    """
    expect_lost_leases(cluster)
    cluster.etcd.send(0, signal.SIGSTOP)
    try:
        wait_until(
            lambda: (
                not any(
                    cluster.serves(each, SENT, partition)
                    for each in cluster.brokers
                    for partition in range(PARTITIONS)
                )
            ),
            "all brokers refuse",
        )
    finally:
        cluster.etcd.send(0, signal.SIGCONT)
    cluster.wait_for_brokers()
    wait_for_replicas(cluster)


def kill_the_store(cluster: ClusterProcess, _: RunningLoad, __: Random) -> None:
    """Kill etcd, and start it again at once."""
    expect_lost_leases(cluster)
    cluster.etcd.kill(0)
    cluster.etcd.start(0)
    cluster.etcd.wait(0)
    wait_for_replicas(cluster)


def fail_a_leaders_log(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Let a sync of a leader's log fail: another replica leads; a restart brings it back."""
    places = cluster.leaders(cluster.running()[0], SENT)
    partition = choices.choice([*places])
    fail_a_log(cluster, load, (places[partition], partition))


def fail_a_followers_log(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Let a sync of a follower's log fail: it leaves the ISR; a restart brings it back."""
    places = cluster.leaders(cluster.running()[0], SENT)
    partition = choices.choice([*places])
    others = [each for each in cluster.brokers if each != places[partition]]
    fail_a_log(cluster, load, (choices.choice(others), partition))


def fail_a_log(cluster: ClusterProcess, load: RunningLoad, place: tuple[int, int]) -> None:
    """Let a log go offline, in a broker that lives on."""
    broker_id, partition = place
    broker = cluster.brokers[broker_id]
    assert isinstance(broker, FaultyBroker)
    broker.expected_complaints.append("log offline")
    broker.fail("sync_data", f"*/{SENT}-{partition}/*.log", errno.EIO)
    others = [each for each in cluster.brokers if each != broker_id]
    wait_until(
        lambda: all(
            broker_id not in cluster.in_sync(each, SENT).get(partition, [broker_id])
            and cluster.leaders(each, SENT)[partition] in others
            for each in others
        ),
        f"{broker_id} gives up {SENT}-{partition}",
        GIVEN_UP_S,
    )
    load.wait_for_progress(f"without a log of {broker_id}", of_senders=True)
    cluster.kill(broker_id)
    cluster.restart(broker_id)
    wait_for_replicas(cluster)


def fill_a_followers_disk(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Let a disk be full for a follower's log for a while: the broker stays, and catches up."""
    broker_id = follower(cluster, choices)
    broker = cluster.brokers[broker_id]
    assert isinstance(broker, FaultyBroker)
    broker.fail("write", f"*/{SENT}-*/*.log", errno.ENOSPC, times=choices.randint(1, 20))
    load.wait_for_progress(f"while the disk of {broker_id} is full", of_senders=True)
    wait_for_replicas(cluster)


def reassign(cluster: ClusterProcess, load: RunningLoad, choices: Random) -> None:
    """Take a replica of each partition away, and make it again, as an operator does."""
    full = {each: choices.sample([*cluster.brokers], len(cluster.brokers)) for each in PLACES}
    fewer = {each: replicas[:-1] for each, replicas in full.items()}
    for wanted in (fewer, full):
        alter_replicas(cluster, wanted)
        in_sync = {each: sorted(replicas) for each, replicas in wanted.items()}
        wait_until(
            lambda in_sync=in_sync: all(  # type: ignore[misc]
                cluster.in_sync(each, SENT) == in_sync for each in cluster.brokers
            ),
            f"the replicas of {SENT} are {wanted}",
        )
        load.wait_for_progress("with other replicas", of_senders=True)


def alter_replicas(cluster: ClusterProcess, wanted: dict[int, list[int]]) -> None:
    """Let partitions have these replicas, once a broker knows a controller."""
    partitions = [
        {"partition_index": each, "replicas": replicas} for each, replicas in wanted.items()
    ]
    body = {"timeout_ms": 10_000, "topics": [{"name": SENT, "partitions": partitions}]}

    def is_accepted() -> bool:
        with WireClient(cluster.brokers[cluster.running()[0]].listen) as client:
            answer = client.request("AlterPartitionReassignments", 0, body)
        topics = answer["responses"]
        codes = {each["error_code"] for topic in topics for each in topic["partitions"]}
        return {answer["error_code"], *codes} == {0}

    wait_until(is_accepted, f"the replicas of {SENT} are altered")


def expect_lost_leases(cluster: ClusterProcess) -> None:
    """Let brokers lose their leases."""
    for each in cluster.brokers.values():
        each.expected_complaints += ["lease lost", "the metadata cannot be followed"]


FAULTS: tuple[Fault, ...] = (
    kill_a_leader,
    lose_a_disk,
    pause_a_leader,
    drain_a_leader,
    kill_all,
    roll,
    kill_a_follower,
    kill_and_restart,
    lose_a_disk_at_once,
    pause_a_follower,
    kill_two,
    fail_a_leaders_log,
    lose_the_store,
    pause_briefly,
    fill_a_followers_disk,
    fail_a_followers_log,
    silence_the_store,
    kill_the_store,
    reassign,
)


def faults_of_run(choices: Random, first: int, count: int) -> list[Fault]:
    """Return so many faults, different ones as long as there are, as in `loads/faults.py`."""
    order = choices.sample(FAULTS, len(FAULTS))
    return [order[(first + each) % len(order)] for each in range(count)]


def leader(cluster: ClusterProcess, choices: Random) -> int:
    """Return who leads one of the partitions."""
    found: list[int] = []

    def is_known() -> bool:
        found[:] = [each for each in leaders(cluster) if each in cluster.brokers]
        return bool(found)

    wait_until(is_known, "there is a leader")
    return choices.choice(found)


def follower(cluster: ClusterProcess, choices: Random) -> int:
    """Return who follows the leader of one of the partitions."""
    of = leader(cluster, choices)
    return choices.choice([each for each in cluster.brokers if each != of])


def leaders(cluster: ClusterProcess) -> list[int]:
    """Return the leaders of the partitions of the load, as one broker knows them."""
    return list(cluster.leaders(cluster.running()[0], SENT).values())


def wait_for_replicas(cluster: ClusterProcess) -> None:
    """Wait until all brokers have everything."""
    for topic in (SENT, COPIED):
        cluster.wait_for_replicas(topic, PARTITIONS)


@contextmanager
def replaced(cluster: ClusterProcess, load: RunningLoad, broker_id: int) -> Iterator[None]:
    """Wait until the others know that a broker has gone, and the load goes on without it.

    Then it comes back, meanwhile, and has everything again.
    """
    others = [each for each in cluster.brokers if each != broker_id]
    wait_until(
        lambda: all(cluster.seen_by(each) == others for each in others),
        f"{others} see that {broker_id} is gone",
    )
    # A client takes minutes to give up a request to a coordinator that is paused, so its group may
    # wait; producers do not.
    load.wait_for_progress(f"without {broker_id}", of_senders=True)
    yield
    wait_for_replicas(cluster)
