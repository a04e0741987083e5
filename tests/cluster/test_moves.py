"""Replicas move between the directories of their brokers, under load and while brokers fail.

Nothing acknowledged is lost, and in the end all replicas have the same bytes.

    pytest tests/cluster/test_moves.py --cluster-faults 20     more faults while everything moves
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.cluster.loads.client_load import COPIED, PARTITIONS, SENT
from tests.cluster.loads.clients import CLIENTS
from tests.cluster.loads.network_faults import LAG_MS
from tests.cluster.loads.replica_faults import (
    drain_a_leader,
    fail_a_followers_log,
    fail_a_leaders_log,
    kill_a_leader,
    kill_and_restart,
    pause_a_follower,
    pause_a_leader,
    reassign,
    replaced,
    roll,
    wait_for_replicas,
)
from tests.cluster.loads.running import RunningLoad, running_load
from tests.cluster.replica_files import differing
from tests.cluster.test_several_directories import (
    NOW_MS,
    SETTINGS,
    TOPIC,
    Copies,
    more_of,
    on_two_disks,
)
from tests.compatibility.operation.test_log_dirs import futures, move, throttle
from tests.conftest import TEST_SETTINGS
from tests.support.batches import batch_of
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cluster_process import ASK_TIMEOUT_S, ClusterProcess
from tests.support.faulty_broker import FaultyBroker
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_requests import produce

LEADER_ALONE, REPLICA_NOT_AVAILABLE, STORAGE_ERROR = 1, 9, 56
UNTHROTTLED = "1000000000"
MOVE_AGAIN_S = 0.2
LONG_SESSION_MS = 6_000  # followers are stopped for a second, and keep their leases
FAULTS = (
    kill_a_leader,
    pause_a_leader,
    fail_a_leaders_log,
    kill_and_restart,
    reassign,
    drain_a_leader,
    fail_a_followers_log,
    pause_a_follower,
    roll,
)


def start_on_two_disks(folder: Path, settings: tuple[str, ...]) -> ClusterProcess:
    """Start three brokers with two directories each; the caller closes them."""
    cluster = ClusterProcess(folder, settings=settings, kind=FaultyBroker)
    try:
        for broker in cluster.brokers.values():
            on_two_disks(broker)
        cluster.start()
    except BaseException:
        cluster.close()
        raise
    return cluster


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three brokers with two directories each."""
    settings = (*TEST_SETTINGS, f"replica.lag.time.max.ms={LAG_MS}")
    cluster = start_on_two_disks(tmp_path / "cluster", settings)
    try:
        yield cluster
        cluster.check()
    finally:
        cluster.close()


def other_directory(broker: BrokerProcess, topic: str, partition: int) -> Path:
    """Return the directory of a broker that has not a partition."""
    is_here = (broker.data_dir / f"{topic}-{partition}").exists()
    return more_of(broker) if is_here else broker.data_dir


def asked(broker: BrokerProcess) -> WireClient:
    """Connect to a broker."""
    return WireClient(broker.listen, ASK_TIMEOUT_S)


def begin_to_move(cluster: ClusterProcess, broker_id: int, topic: str, partition: int) -> Path:
    """Ask for a move that goes no further than its first piece; return where it goes."""
    broker = cluster.brokers[broker_id]
    directory = other_directory(broker, topic, partition)
    with asked(broker) as client:
        throttle(client, "1", broker_id)
        assert move(client, partition, directory, topic) == 0
        wait_until(lambda: is_copied_in_part(client), "something is copied")
    assert not (directory / f"{topic}-{partition}").exists()
    return directory


def is_copied_in_part(client: WireClient) -> bool:
    """Return whether there is a move that has begun."""
    return any(size > 0 for _, size, _ in futures(client).values())


def end_moves(cluster: ClusterProcess) -> None:
    """Let moves be as fast as they can, and wait until none is left."""
    for broker_id, broker in cluster.brokers.items():
        with asked(broker) as client:
            throttle(client, UNTHROTTLED, broker_id)
            wait_until(lambda client=client: not futures(client), "all moves have ended")  # type: ignore[misc]


def end_and_compare(cluster: ClusterProcess) -> None:
    """Stop all brokers; all replicas must have the same bytes, and nothing else be there."""
    for each in cluster.brokers:
        cluster.drain(each)
    assert [
        found for topic in (SENT, COPIED) for found in differing(cluster, topic, PARTITIONS)
    ] == []
    for broker in cluster.brokers.values():
        for topic in (SENT, COPIED):
            names = [each.name for each in broker.data_dir.parent.glob(f"*/{topic}-*")]
            assert sorted(names) == [f"{topic}-{each}" for each in range(PARTITIONS)]


@pytest.mark.slow("a load on three brokers, two of which are killed")
@pytest.mark.timeout(0)
def test_replicas_of_a_leader_and_a_follower_move_under_load_and_over_kills(
    cluster: ClusterProcess, tmp_path: Path, choices: Random
) -> None:
    with running_load(cluster, CLIENTS["librdkafka"](), tmp_path, replicas=3) as load:
        wait_for_replicas(cluster)
        partition = choices.randrange(PARTITIONS)
        leader = cluster.leaders(1, SENT)[partition]
        follower = choices.choice([each for each in cluster.brokers if each != leader])
        places = {
            each: begin_to_move(cluster, each, SENT, partition) for each in (leader, follower)
        }
        for each in (leader, follower):
            with load.fault(f"kill {each} while its replica moves"):
                cluster.kill(each)
                with replaced(cluster, load, each):
                    cluster.restart(each)
                with asked(cluster.brokers[each]) as client:
                    wait_until(lambda client=client: bool(futures(client)), "the move goes on")  # type: ignore[misc]
        load.wait_for_progress("while replicas move")
        end_moves(cluster)
        for each, directory in places.items():
            files = list((directory / f"{SENT}-{partition}").glob("*.log"))
            assert files, (each, directory)
        load.wait_for_progress("after the moves")
        wait_for_replicas(cluster)
    end_and_compare(cluster)


class Mover:
    """Asks brokers for moves of any of their replicas, as long as it runs."""

    def __init__(self, cluster: ClusterProcess, choices: Random) -> None:
        self._cluster = cluster
        self._choices = choices
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.count = 0
        self.failure: BaseException | None = None

    def _run(self) -> None:
        try:
            while not self._is_over.wait(MOVE_AGAIN_S):
                self._ask()
        except BaseException as error:  # noqa: BLE001 (it is raised by the test)
            self.failure = error

    def _ask(self) -> None:
        broker_id = self._choices.choice([*self._cluster.brokers])
        broker = self._cluster.brokers[broker_id]
        topic = self._choices.choice((SENT, COPIED))
        partition = self._choices.randrange(PARTITIONS)
        rate = self._choices.choice(("20000", UNTHROTTLED))
        try:
            with asked(broker) as client:
                throttle(client, rate, broker_id)
                directory = other_directory(broker, topic, partition)
                code = move(client, partition, directory, topic)
        except (ConnectionClosedError, OSError, AssertionError):
            return  # the broker is gone, or there is no controller
        assert code in {0, REPLICA_NOT_AVAILABLE, STORAGE_ERROR}, code
        self.count += code == 0


@contextmanager
def everything_moves(cluster: ClusterProcess, choices: Random) -> Iterator[Mover]:
    """Let replicas move all the time; in the end all moves have ended."""
    mover = Mover(cluster, choices)
    mover._thread.start()
    try:
        yield mover
    finally:
        mover._is_over.set()
        mover._thread.join()
    if mover.failure is not None:
        raise mover.failure
    end_moves(cluster)


@pytest.mark.slow("brokers fail under load, --cluster-faults times")
@pytest.mark.timeout(0)
def test_nothing_is_lost_while_replicas_move_and_brokers_fail(
    cluster: ClusterProcess, tmp_path: Path, choices: Random, request: pytest.FixtureRequest
) -> None:
    for broker in cluster.brokers.values():  # a log fails while it moves
        broker.expected_complaints += ["partition not moved", "log offline"]
    count = request.config.getoption("--cluster-faults")
    order = choices.sample(FAULTS, len(FAULTS))
    faults: list[Callable[[ClusterProcess, RunningLoad, Random], None]] = [
        order[number % len(order)] for number in range(count)
    ]
    with running_load(cluster, CLIENTS["librdkafka"](), tmp_path, replicas=3) as load:
        with everything_moves(cluster, choices) as mover:
            for fault in faults:
                with load.fault(fault.__name__):
                    fault(cluster, load, choices)
        assert mover.count > count
        load.wait_for_progress("after the moves")
        wait_for_replicas(cluster)
    end_and_compare(cluster)


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Copies]:
    """A topic with three replicas on brokers with two directories, which a test stops."""
    settings = (*SETTINGS, f"broker.session.timeout.ms={LONG_SESSION_MS}")
    cluster = start_on_two_disks(tmp_path / "cluster", settings)
    for broker in cluster.brokers.values():
        broker.expected_complaints.append("the loop has stalled")  # while it was stopped
    try:
        yield Copies(cluster)
        cluster.check()
    finally:
        cluster.close()


def copy_what_one_has_alone(copies: Copies, leader: int, partition: int) -> Path:
    """Have a leader, and nobody else, write records, and copy all that it has, but not use that.

    Its followers go on without it. Returns the directory of the copy.
    """
    cluster, broker = copies.cluster, copies.cluster.brokers[leader]
    others = [each for each in cluster.brokers if each != leader]
    directory = other_directory(broker, TOPIC, partition)
    with asked(broker) as client:
        throttle(client, "1", leader)
        for each in others:
            cluster.pause(each)
        try:
            # The first answers what the followers have asked before they were stopped.
            for number in range(4):
                records = batch_of([(b"k", b"lost %d" % number, ())], NOW_MS)
                assert produce(client, TOPIC, records, partition, LEADER_ALONE)[0] == 0
            assert move(client, partition, directory, TOPIC) == 0
            wait_until(lambda: is_copied(client, partition), "everything is copied")
            cluster.pause(leader)
        finally:
            for each in others:
                cluster.resume(each)
    return directory


def is_copied(client: WireClient, partition: int) -> bool:
    """Return whether the copy of a partition has all of its bytes."""
    results = client.request("DescribeLogDirs", 4, {"topics": None})["results"]
    sizes = {
        each["is_future_key"]: each["partition_size"]
        for result in results
        for topic in result["topics"]
        for each in topic["partitions"]
        if each["partition_index"] == partition
    }
    return sizes.get(True) == sizes[False]


@pytest.mark.slow("the lease of a broker ends")
def test_a_replica_is_cut_while_it_moves(copies: Copies) -> None:
    cluster, partition = copies.cluster, 0
    for _ in range(8):
        copies.write(partition)
    leader = cluster.leaders(1, TOPIC)[partition]
    broker, before = cluster.brokers[leader], cluster.registration(leader)

    directory = copy_what_one_has_alone(copies, leader, partition)
    others = [each for each in cluster.brokers if each != leader]
    wait_until(
        lambda: all(cluster.leaders(each, TOPIC).get(partition) in others for each in others),
        "another one leads",
    )
    copies.write(partition)
    cluster.resume(leader)
    cluster.wait_for_registration(leader, before)
    cluster.wait_for_brokers()
    cluster.wait_for_replicas(TOPIC, 5)
    assert "log cut" in broker.stderr()
    with asked(broker) as client:
        assert futures(client), "it still moves"
    end_moves(cluster)
    copies.write(partition)

    copies.check()
    assert (directory / f"{TOPIC}-{partition}").exists()
    for each in cluster.brokers:
        cluster.drain(each)
    assert differing(cluster, TOPIC, 5) == []
