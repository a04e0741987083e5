"""The order in which partitions are looked at, and what is added meanwhile."""

from broker.core.cluster.records import PartitionState
from broker.core.cluster.scan import Scan
from broker.core.cluster.unique_queue import UniqueQueue
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP
from tests.unit.core.cluster.clusters import Cluster


def everything(scan: Scan) -> list[tuple[bytes, int]]:
    found = []
    while scan.has_work:
        part = scan.next()
        assert len(part) <= CLUSTER_PARTITIONS_PER_STEP
        found += part
    return found


def test_single_partitions_come_before_topics_and_topics_before_everything() -> None:
    cluster = Cluster(1)
    first, second = cluster.create("a", (1,), (1,)), cluster.create("b", (1,))
    scan = Scan(cluster.image)
    scan.add_all()
    scan.add_topic(second)
    scan.add_partitions({(first, 1): None})

    assert everything(scan) == [(first, 1), (second, 0), (first, 0), (first, 1), (second, 0)]
    assert not scan.has_work
    assert scan.next() == []


def test_states_without_a_topic_are_part_of_everything() -> None:
    cluster = Cluster(1)
    for partition in (5, 3):
        cluster.put(bytes(16), partition, PartitionState(1, 1, 1, (1,), (1,), 1))
    scan = Scan(cluster.image)
    scan.add_all()

    assert everything(scan) == [(bytes(16), 3), (bytes(16), 5)]


def test_everything_is_looked_at_again_when_it_is_added_meanwhile() -> None:
    cluster = Cluster(1)
    partitions = 2 * CLUSTER_PARTITIONS_PER_STEP
    topic_id = cluster.create("a", *[(1,)] * partitions)
    scan = Scan(cluster.image)
    scan.add_all()
    scan.next()
    found = scan.next()
    scan.add_all()
    scan.add_all()

    assert found + everything(scan) == [(topic_id, each) for each in range(partitions)] * 2


def test_a_topic_that_was_deleted_meanwhile_is_skipped() -> None:
    cluster = Cluster(1)
    topic_id = cluster.create("a", (1,))
    scan = Scan(cluster.image)
    scan.add_topic(topic_id)
    cluster.image.topics.clear()

    assert everything(scan) == []


def test_a_queue_holds_an_item_once_and_again_after_it_was_taken() -> None:
    queue: UniqueQueue[str] = UniqueQueue()
    for each in "abab":
        queue.add(each)

    assert queue.popleft() == "a"
    queue.add("a")

    assert [queue.popleft() for _ in range(len(queue))] == ["b", "a"]
