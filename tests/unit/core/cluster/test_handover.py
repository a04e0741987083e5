"""The leader's part in moving a leadership."""

import pytest

from broker.core.cluster.handover import HandOver, could_be_led_by_others
from broker.core.cluster.records import NO_LEADER, PartitionState
from broker.core.cluster.slices import complete
from broker.core.cluster.writes import Write
from broker.model.limits import CLUSTER_CHANGES_PER_TRANSACTION, CLUSTER_RETRY_MS
from broker.storage.metadata import CreatedAt
from tests.unit.core.cluster.clusters import Cluster, keys


class Leader:
    """Broker 1 of a cluster, which leads some partitions of one topic, and its driver."""

    def __init__(self, partitions: int = 1, *, is_shared: bool = False) -> None:
        self.cluster = Cluster(3)
        replicas = (1,) if is_shared else (1, 2, 3)
        self.topic_id = self.cluster.create("t", *[replicas] * partitions)
        self.epoch = self.cluster.image.brokers[1].epoch
        self.served = {(self.topic_id, each) for each in range(partitions)}
        self.is_shared = is_shared
        self.begin()

    def begin(self) -> None:
        self.hand_over = HandOver(
            self.cluster.image,
            (1, self.epoch),
            lambda *item: item in self.served,
            is_shared=self.is_shared,
        )

    def succeed(self, partition: int, successor: int) -> None:
        """Set the successor of a partition, as the controller does, or clear it."""
        state = self.cluster.state(self.topic_id, partition)
        writer = Cluster()
        writer.store = self.cluster.store
        writer.put(
            self.topic_id,
            partition,
            state._replace(successor=successor, partition_epoch=state.partition_epoch + 1),
        )
        self.refresh()

    def refresh(self) -> None:
        image = self.cluster.image
        for changes in self.cluster.store.changes(image.revision):
            self.hand_over.image_changed(complete(image.apply(changes)))

    def writes(self) -> list[Write]:
        found = []
        while self.hand_over.has_work:
            write = self.hand_over.work()
            if write is not None:
                found.append(write)
        return found

    def stop(self, partition: int = 0) -> None:
        item = (self.topic_id, partition)
        self.served.discard(item)
        self.hand_over.stopped(item)

    def state(self, partition: int = 0) -> PartitionState:
        return self.cluster.state(self.topic_id, partition)


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_a_leader_with_a_successor_stops_before_it_writes(leader: Leader) -> None:
    leader.succeed(0, 2)

    assert leader.writes() == []
    assert leader.hand_over.take_stops() == [(leader.topic_id, 0)]
    assert leader.hand_over.take_stops() == []
    leader.stop()
    (write,) = leader.writes()

    revision = leader.cluster.store.transact(*write.transaction)
    assert revision is not None
    leader.hand_over.applied(write, revision)
    leader.refresh()
    epoch = leader.cluster.image.brokers[2].epoch
    assert leader.state() == PartitionState(2, 1, epoch, (1, 2, 3), (1, 2, 3), 2)
    assert leader.writes() == []


def test_a_leader_that_does_not_serve_yet_writes_at_once(leader: Leader) -> None:
    leader.served.clear()

    leader.succeed(0, 2)

    assert len(leader.writes()) == 1
    assert leader.hand_over.take_stops() == []


def test_a_broker_that_learns_late_of_its_registration_hands_over_what_it_leads(
    leader: Leader,
) -> None:
    leader.served.clear()
    leader.succeed(0, 2)

    leader.begin()

    assert len(leader.writes()) == 1


def test_only_the_registered_incarnation_hands_over(leader: Leader) -> None:
    leader.succeed(0, 2)
    leader.stop()
    (write,) = leader.writes()

    assert write.transaction.guards[0] == CreatedAt(b"broker/1", leader.epoch)
    leader.cluster.store.expire(leader.cluster.leases[1])
    assert leader.cluster.store.transact(*write.transaction) is None


@pytest.mark.parametrize("successor", [NO_LEADER, 3])
def test_a_successor_that_was_changed_meanwhile_is_respected(
    leader: Leader, successor: int
) -> None:
    leader.succeed(0, 2)
    leader.stop()
    (write,) = leader.writes()
    leader.succeed(0, successor)

    assert leader.cluster.store.transact(*write.transaction) is None
    leader.hand_over.refused(write, 0)
    leader.cluster.register(3)
    leader.refresh()

    writes = leader.writes()
    assert len(writes) == (successor == 3)
    for write in writes:
        leader.cluster.store.transact(*write.transaction)
    leader.refresh()
    assert leader.state().leader == (3 if successor == 3 else 1)


def test_nothing_is_handed_over_while_the_driver_serves_again(leader: Leader) -> None:
    leader.succeed(0, 2)
    leader.writes()
    leader.hand_over.take_stops()
    leader.succeed(0, NO_LEADER)
    leader.stop()  # it has stopped nevertheless

    assert leader.writes() == []

    leader.served.add((leader.topic_id, 0))
    leader.succeed(0, 2)
    assert leader.writes() == []
    assert leader.hand_over.take_stops() == [(leader.topic_id, 0)]


def test_a_partition_that_another_incarnation_leads_is_not_handed_over(leader: Leader) -> None:
    state = leader.state()
    leader.cluster.put(leader.topic_id, 0, state._replace(broker_epoch=99, successor=2))
    leader.stop()

    assert leader.writes() == []


def test_what_may_be_lost_is_written_again(leader: Leader) -> None:
    leader.succeed(0, 2)
    leader.stop()
    (write,) = leader.writes()

    leader.hand_over.unknown(write, 0)
    assert leader.writes() == []
    assert leader.hand_over.due_ms == CLUSTER_RETRY_MS
    leader.hand_over.tick(CLUSTER_RETRY_MS)

    assert keys(leader.writes()[0].transaction.operations) == keys(write.transaction.operations)


def test_a_successor_that_has_failed_or_fallen_behind_is_not_written(leader: Leader) -> None:
    leader.succeed(0, 2)
    leader.cluster.store.expire(leader.cluster.leases[2])
    leader.refresh()
    leader.stop()

    assert leader.writes() == []


def test_a_successor_that_has_restarted_is_written_without_another_change(leader: Leader) -> None:
    leader.succeed(0, 2)
    leader.stop()
    leader.cluster.store.expire(leader.cluster.leases.pop(2))
    leader.refresh()
    assert leader.writes() == []

    leader.cluster.register(2)
    leader.refresh()

    assert len(leader.writes()) == 1


def test_many_partitions_are_handed_over_in_transactions_of_limited_size() -> None:
    leader = Leader(250)
    leader.served.clear()
    for partition in range(250):
        leader.succeed(partition, 2)

    sizes = [len(write.transaction.operations) for write in leader.writes()]

    assert sizes == [CLUSTER_CHANGES_PER_TRANSACTION, CLUSTER_CHANGES_PER_TRANSACTION, 50]


def test_in_a_shared_directory_the_successor_becomes_the_only_replica() -> None:
    leader = Leader(is_shared=True)
    leader.succeed(0, 3)
    leader.stop()
    (write,) = leader.writes()

    leader.cluster.store.transact(*write.transaction)
    leader.refresh()

    epoch = leader.cluster.image.brokers[3].epoch
    assert leader.state() == PartitionState(3, 1, epoch, (3,), (3,), 2)


def test_a_broker_waits_with_its_departure_while_others_could_lead_what_it_leads() -> None:
    def must_wait(broker_id: int = 1) -> bool:
        return complete(could_be_led_by_others(cluster.image, broker_id))

    cluster = Cluster(3)
    cluster.create("a", (1,))
    assert not must_wait()
    topic_id = cluster.create("b", (1, 2))
    assert must_wait()
    assert not must_wait(2)  # it leads nothing

    cluster.drain(2)
    assert not must_wait()
    cluster.restart(2)
    assert must_wait()
    cluster.empty(2)
    cluster.restart(2)
    assert not must_wait()
    cluster.put(topic_id, 0, cluster.state(topic_id)._replace(isr=(1, 2), partition_epoch=1))
    assert must_wait()
