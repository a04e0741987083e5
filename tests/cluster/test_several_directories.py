"""Brokers with two directories each: one of them is lost, comes back, or fails.

The first one of broker 1 keeps its partitions in service, and no acknowledged record is lost.
"""

import errno
import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import TEST_SETTINGS
from tests.support.batches import batch_of
from tests.support.broker_process import BrokerProcess, wait_until
from tests.support.cluster_process import ASK_TIMEOUT_S, ClusterProcess
from tests.support.faulty_broker import ALWAYS, FaultyBroker
from tests.support.wire_client import ConnectionClosedError, WireClient
from tests.support.wire_records import read_batches
from tests.support.wire_requests import fetch, list_offset, produce

pytestmark = pytest.mark.etcd
TOPIC, PARTITIONS = "t", 5
SETTINGS = (*TEST_SETTINGS, "default.replication.factor=3", "min.insync.replicas=2")
OPERATIONS = ("open", "write", "send", "sync_data", "sync", "sync_folder", "sync_filesystem")
NOW_MS = 1_700_000_000_000


def more_of(broker: BrokerProcess) -> Path:
    """Return the second directory of a broker."""
    return broker.data_dir.parent / "more"


def on_two_disks(broker: BrokerProcess, *, is_swapped: bool = False) -> None:
    """Have a broker start with a second directory, before or after its own."""
    data, more = str(broker.data_dir), str(more_of(broker))
    both = f"{more},{data}" if is_swapped else f"{data},{more}"
    broker.wrap = lambda command: [both if each == data else each for each in command]


class Copies:
    """A topic with three replicas, and what was acknowledged of it.

    Attributes:
        here: the partitions in the first directory of broker 1.
        there: those in its second.
    """

    def __init__(self, cluster: ClusterProcess) -> None:
        self.cluster = cluster
        self.acknowledged: dict[int, list[bytes]] = {each: [] for each in range(PARTITIONS)}
        self._ask_to_create()
        cluster.wait_for_leaders(TOPIC, PARTITIONS)
        cluster.wait_for_replicas(TOPIC, PARTITIONS)
        broker = cluster.brokers[1]
        self.here = found_in(broker.data_dir)
        self.there = found_in(more_of(broker))
        assert self.here
        assert self.there
        assert self.here | self.there == set(range(PARTITIONS))

    def _ask_to_create(self) -> None:
        topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 3}
        with WireClient(self.cluster.brokers[1].address, ASK_TIMEOUT_S) as client:
            made = client.request("CreateTopics", 5, {"topics": [topic], "timeout_ms": 10_000})
        assert made["topics"][0]["error_code"] == 0, made

    def write(self, *partitions: int) -> None:
        """Have a record acknowledged by all replicas in sync of these partitions, or of each."""
        for partition in partitions or range(PARTITIONS):
            values = self.acknowledged[partition]
            value = f"{partition}-{len(values)}".encode()
            wait_until(partial(self._is_written, partition, value), f"{value!r} is written")
            values.append(value)

    def _is_written(self, partition: int, value: bytes) -> bool:
        for leader in self._leaders(partition):
            try:
                with WireClient(self.cluster.brokers[leader].address, ASK_TIMEOUT_S) as client:
                    records = batch_of([(b"k", value, ())], NOW_MS)
                    code, _ = produce(client, TOPIC, records, partition)
            except (ConnectionClosedError, OSError):
                continue
            if code == 0:
                return True
        return False

    def _leaders(self, partition: int) -> set[int]:
        """Return who leads a partition, as the brokers that run know it."""
        running = self.cluster.running()
        found = {self.cluster.leaders(each, TOPIC).get(partition, -1) for each in running}
        return found.intersection(running)

    def check(self) -> None:
        """Fail if a record that was acknowledged cannot be read, or not in its order."""
        self.cluster.wait_for_leaders(TOPIC, PARTITIONS)
        for partition, values in self.acknowledged.items():
            [leader] = self._leaders(partition)
            with WireClient(self.cluster.brokers[leader].address, ASK_TIMEOUT_S) as client:
                stored = everything(client, partition)
            places = [stored.index(value) for value in values]
            assert places == sorted(places), (partition, stored)

    def wait_for_members(self, members: dict[int, list[int]]) -> None:
        """Wait until the partitions have these replicas in sync."""
        running = self.cluster.running()
        wait_until(
            lambda: all(self.cluster.in_sync(each, TOPIC) == members for each in running),
            f"in sync are {members}",
        )

    def without_its_second_directory(self) -> dict[int, list[int]]:
        """Return the members of each partition when broker 1 has only its first directory."""
        return {each: [2, 3] if each in self.there else [1, 2, 3] for each in range(PARTITIONS)}


def found_in(directory: Path) -> set[int]:
    """Return the partitions that a directory has."""
    return {int(each.name.rpartition("-")[2]) for each in directory.glob(f"{TOPIC}-?")}


def everything(client: WireClient, partition: int) -> list[bytes | None]:
    """Return the values of all records of a partition."""
    end = list_offset(client, TOPIC, partition, -1)["offset"]
    values: list[bytes | None] = []
    while len(values) < end:
        for batch in read_batches(fetch(client, TOPIC, partition, len(values))):
            values += batch.values
    return values


@pytest.fixture
def copies(tmp_path: Path) -> Iterator[Copies]:
    """Three brokers with two directories each, and a topic that is in both of each."""
    cluster = ClusterProcess(tmp_path / "cluster", settings=SETTINGS, kind=FaultyBroker)
    try:
        for broker in cluster.brokers.values():
            on_two_disks(broker)
        cluster.start()
        yield Copies(cluster)
        cluster.check()
    finally:
        cluster.close()


def test_a_directory_that_is_lost_leaves_the_others_serving_and_catches_up(
    copies: Copies, tmp_path: Path
) -> None:
    cluster, broker = copies.cluster, copies.cluster.brokers[1]
    broker.expected_complaints += ["directory is missing", "offline"]
    copies.write()
    for each in cluster.brokers:
        cluster.kill(each)
    more_of(broker).rename(tmp_path / "lost")
    more_of(broker).write_text("no folder")

    cluster.restart(1)  # it counts for all, and is elected
    cluster.restart(2, 3)

    copies.wait_for_members(copies.without_its_second_directory())
    copies.write()
    copies.check()
    assert found_in(broker.data_dir) == copies.here, "nothing is made anew"
    cluster.kill(1)
    more_of(broker).unlink()
    (tmp_path / "lost").rename(more_of(broker))
    cluster.restart(1)
    cluster.wait_for_replicas(TOPIC, PARTITIONS)
    copies.write()
    cluster.drain(3)  # whoever is elected has everything
    copies.check()
    assert (found_in(broker.data_dir), found_in(more_of(broker))) == (copies.here, copies.there)


def test_a_broker_with_a_directory_that_was_emptied_leads_nothing_that_others_have_more_of(
    copies: Copies,
) -> None:
    cluster, broker = copies.cluster, copies.cluster.brokers[1]
    copies.write()
    for each in cluster.brokers:
        cluster.kill(each)
    shutil.rmtree(more_of(broker))
    (broker.data_dir / "log-directories").unlink()  # so an operator gives it up

    cluster.restart(1)
    wait_until(lambda: cluster.controller() == 1, "there is a controller")
    assert 1 not in cluster.leaders(1, TOPIC).values()

    cluster.restart(2, 3)
    copies.check()
    cluster.wait_for_replicas(TOPIC, PARTITIONS)
    copies.write()
    cluster.kill(1)
    cluster.wipe(1)
    on_two_disks(broker, is_swapped=True)  # with a new disk, the other one is the first
    cluster.restart(1)
    cluster.wait_for_replicas(TOPIC, PARTITIONS)
    copies.write()
    copies.check()


def test_a_directory_that_fails_takes_its_partitions_alone(copies: Copies) -> None:
    cluster, broker = copies.cluster, copies.cluster.brokers[1]
    assert isinstance(broker, FaultyBroker)
    copies.write()
    cluster.restart(1)  # no log has anything to be synced
    cluster.wait_for_replicas(TOPIC, PARTITIONS)
    broker.expected_complaints += ["offline", "failed"]
    for operation in OPERATIONS:
        broker.fail(operation, f"{more_of(broker)}*", errno.EIO, times=ALWAYS)

    copies.write(min(copies.there))  # the others are idle

    copies.wait_for_members(copies.without_its_second_directory())
    copies.write()
    copies.check()
    cluster.kill(1)
    cluster.restart(1)
    cluster.wait_for_replicas(TOPIC, PARTITIONS)
    copies.write()
    copies.check()
