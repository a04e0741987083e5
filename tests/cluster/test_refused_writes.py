"""What replicas refuse while some of them cannot keep records, and that it ends with the reason."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.replica_files import differing
from tests.cluster.replica_requests import TOPIC, create, isr, send, state, wait_for, write
from tests.support.broker_process import wait_until
from tests.support.cluster_process import ASK_TIMEOUT_S, ClusterProcess, running_cluster
from tests.support.small_disk import fill_up, small_disk
from tests.support.wire_client import WireClient
from tests.support.wire_requests import end_offset, fetch

pytestmark = pytest.mark.etcd
LAG_S = 2
NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND = 19, 20
DISK_BYTES = 64 << 20
LARGE = bytes(400_000)
WRITES_MAX = DISK_BYTES // len(LARGE)


def readable_end(cluster: ClusterProcess, broker_id: int) -> int:
    with WireClient(cluster.brokers[broker_id].listen, ASK_TIMEOUT_S) as client:
        return end_offset(client, TOPIC)


@pytest.mark.slow("the leases of two brokers end, and both start again")
def test_without_two_of_three_brokers_writes_are_refused_and_nothing_new_is_read_until_one_is_back(
    tmp_path: Path,
) -> None:
    """A write waits for them as long as they are only silent, until their leases have ended."""
    with running_cluster(tmp_path) as cluster:
        create(cluster, [1, 2, 3])
        wait_for(cluster, 1, isr({1, 2, 3}), "all replicas are in sync")
        assert write(cluster, 1) == 0
        for each in (2, 3):
            cluster.pause(each)
        error, _ = send(cluster, 1)
        assert error == NOT_ENOUGH_REPLICAS_AFTER_APPEND
        for each in (2, 3):
            cluster.kill(each)
        wait_for(cluster, 1, isr({1}), "the leader is alone")

        error, _ = send(cluster, 1)
        assert error == NOT_ENOUGH_REPLICAS
        error, offset = send(cluster, 1, acks=1)
        assert (error, offset) == (0, 2)
        assert readable_end(cluster, 1) == 1
        with WireClient(cluster.brokers[1].listen, ASK_TIMEOUT_S) as client:
            assert fetch(client, TOPIC, 0, 1) == b""

        cluster.restart(2)
        wait_for(cluster, 1, isr({1, 2}), "one is back")
        wait_until(lambda: readable_end(cluster, 1) == offset + 1, "everything is readable")
        assert write(cluster, 1) == offset + 1
        cluster.restart(3)
        wait_for(cluster, 1, isr({1, 2, 3}), "both are back")
        assert write(cluster, 1) == offset + 2


@pytest.fixture
def cluster_with_a_small_disk(tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three brokers, of which the third has a disk of its own."""
    with small_disk(tmp_path, "tmpfs", DISK_BYTES) as disk:
        cluster = ClusterProcess(tmp_path, settings=(f"replica.lag.time.max.ms={LAG_S}000",))
        cluster.brokers[3].data_dir = disk / "data"
        try:
            cluster.start()
            yield cluster
            cluster.check()
        finally:
            cluster.close()


def test_a_follower_with_a_full_disk_leaves_the_isr_and_writers_go_on(
    cluster_with_a_small_disk: ClusterProcess,
) -> None:
    cluster = cluster_with_a_small_disk
    create(cluster, [1, 2, 3])
    wait_for(cluster, 1, isr({1, 2, 3}), "all replicas are in sync")
    assert write(cluster, 1, value=LARGE) == 0
    registered = cluster.registration(3)
    other = cluster.brokers[3].data_dir.parent / "other"
    fill_up(other)

    end = 1
    while isr({1, 2, 3})(state(cluster, 1)):  # it has a reserve; the last one waits until it leaves
        assert write(cluster, 1, value=LARGE) == end < WRITES_MAX
        end += 1
    assert isr({1, 2})(state(cluster, 1))
    for offset in range(end, end + 5):
        assert write(cluster, 1, value=LARGE) == offset
    assert readable_end(cluster, 1) == end + 5
    assert cluster.registration(3) == registered, "it serves everything else"
    assert isr({1, 2})(state(cluster, 1))

    other.unlink()
    wait_for(cluster, 1, isr({1, 2, 3}), "the follower has caught up")
    assert write(cluster, 1, value=LARGE) == end + 5
    for each in cluster.brokers:
        cluster.drain(each)
    assert differing(cluster, TOPIC, 1) == []
