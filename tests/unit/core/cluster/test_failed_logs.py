"""What a broker gives up when its log of a partition has failed."""

import pytest

from broker.core.cluster.failed_logs import FailedLogs
from broker.core.cluster.records import NO_LEADER, PartitionState, Replicas
from broker.core.cluster.slices import complete
from broker.core.cluster.topic_settings import ReplicaSettings, TopicSettings
from broker.core.cluster.writes import Item, Write
from broker.model.limits import CLUSTER_RETRY_MS
from broker.storage.metadata import CreatedAt
from tests.unit.core.cluster.clusters import Cluster


class Broker:
    """Broker 1 of three, with a replica of partition 0 of a topic."""

    def __init__(self, *, leader: int = 1, isr: Replicas = (1, 2, 3), min_isr: int = 2) -> None:
        self.cluster = Cluster(3)
        self.item: Item = (self.cluster.create("t", (1, 2, 3)), 0)
        self.failed_up_to = 100  # the leader epoch of the last records
        self.is_failed = True
        self.settings = TopicSettings(self.cluster.image, lambda: ReplicaSettings(min_isr))
        self.begin()
        epoch = self.cluster.image.brokers[leader].epoch
        self.put(PartitionState(leader, 100, epoch, (1, 2, 3), isr, 1))

    def begin(self, *failed: Item) -> None:
        self.machine = FailedLogs(
            self.cluster.image,
            (1, self.cluster.image.brokers[1].epoch),
            failed,
            lambda *_: self.is_failed and self.failed_up_to <= _[2],
            self.settings,
        )

    def put(self, state: PartitionState) -> None:
        """Store the state of the partition, as another broker."""
        writer = Cluster()
        writer.store = self.cluster.store
        writer.put(*self.item, state)
        self.refresh()

    def refresh(self) -> None:
        cluster = self.cluster
        for changes in cluster.store.changes(cluster.image.revision):
            self.machine.image_changed(complete(cluster.image.apply(changes)))

    def write(self) -> Write | None:
        write = None
        while write is None and self.machine.has_work:
            write = self.machine.work()
        return write

    def settle(self) -> None:
        """Apply whatever is written."""
        while (write := self.write()) is not None:
            revision = self.cluster.store.transact(*write.transaction)
            assert revision is not None
            self.machine.applied(write, revision)
            self.refresh()

    @property
    def state(self) -> PartitionState:
        return self.cluster.state(*self.item)


def test_a_leader_makes_another_member_the_leader_and_leaves_the_isr() -> None:
    broker = Broker()

    broker.machine.failed(broker.item)
    broker.settle()

    epoch = broker.cluster.image.brokers[2].epoch
    assert broker.state[:3] == (2, 101, epoch)
    assert (broker.state.isr, broker.state.elr) == ((2, 3), ())


def test_a_leader_is_not_eligible_when_the_isr_falls_below_its_minimum() -> None:
    broker = Broker(isr=(1, 3))

    broker.machine.failed(broker.item)
    broker.settle()

    assert (broker.state.leader, broker.state.isr, broker.state.elr) == (3, (3,), ())


def test_a_leader_with_the_last_copy_stays_until_another_member_can_lead() -> None:
    broker = Broker(isr=(1, 2))
    broker.cluster.fail(2)
    broker.begin()

    broker.machine.failed(broker.item)
    assert broker.write() is None

    broker.cluster.register(2)
    broker.refresh()
    broker.settle()
    assert (broker.state.leader, broker.state.isr) == (2, (2,))


def test_a_leader_that_is_alone_in_the_isr_stays() -> None:
    broker = Broker(isr=(1,))

    broker.machine.failed(broker.item)

    assert broker.write() is None


@pytest.mark.parametrize("isr", [(1, 2, 3), (1, 2)])
def test_a_follower_leaves_the_isr(isr: Replicas) -> None:
    broker = Broker(leader=2, isr=isr)

    broker.machine.failed(broker.item)
    broker.settle()

    assert broker.state[:2] == (2, 100)
    assert (broker.state.isr, broker.state.elr) == (isr[1:], ())


def test_a_follower_stays_while_no_other_member_is_registered() -> None:
    broker = Broker(leader=2, isr=(1, 2))
    broker.cluster.fail(2)
    broker.refresh()

    broker.machine.failed(broker.item)

    assert broker.write() is None


def test_a_replica_leaves_the_elr() -> None:
    broker = Broker(leader=2, isr=(2,))
    broker.put(broker.state._replace(elr=(1, 3)))

    broker.machine.failed(broker.item)
    broker.settle()

    assert (broker.state.isr, broker.state.elr) == ((2,), (3,))


def test_an_eligible_replica_leads_when_the_isr_has_no_other_member() -> None:
    broker = Broker(isr=(1,), min_isr=2)
    broker.put(broker.state._replace(elr=(2, 3)))

    broker.machine.failed(broker.item)
    broker.settle()

    epoch = broker.cluster.image.brokers[2].epoch
    assert broker.state[:3] == (2, 101, epoch)
    assert (broker.state.isr, broker.state.elr) == ((2,), (3,))


def test_the_last_replica_that_is_eligible_stays_so() -> None:
    broker = Broker(leader=2, isr=(2,))
    broker.put(broker.state._replace(leader=NO_LEADER, isr=(), elr=(1,)))

    broker.machine.failed(broker.item)

    assert broker.write() is None
    assert broker.state.elr == (1,)


def test_an_eligible_replica_stays_so_while_the_others_may_come_back_without_their_records() -> (
    None
):
    broker = Broker(leader=2, isr=(2,))
    broker.cluster.fail(3)
    broker.put(broker.state._replace(leader=NO_LEADER, isr=(), elr=(1, 3)))
    broker.begin()

    broker.machine.failed(broker.item)
    assert broker.write() is None

    broker.cluster.register(3)
    broker.refresh()
    broker.settle()
    assert broker.state.elr == (3,)


def test_a_replica_that_is_no_member_writes_nothing() -> None:
    broker = Broker(leader=2, isr=(2, 3))

    broker.machine.failed(broker.item)

    assert broker.write() is None


def test_a_broker_whose_log_has_failed_gives_up_a_later_election_at_once() -> None:
    broker = Broker(leader=2, isr=(2, 3))
    broker.machine.failed(broker.item)
    broker.write()

    epoch = broker.cluster.image.brokers[1].epoch
    broker.put(PartitionState(1, 101, epoch, (1, 2, 3), (1, 2), 5))
    broker.settle()

    assert broker.state.leader == 2


def test_a_later_incarnation_knows_what_has_failed() -> None:
    broker = Broker()

    broker.begin(broker.item)
    broker.settle()

    assert broker.state.leader == 2


def test_a_log_that_is_ahead_of_the_store_gives_up_nothing() -> None:
    broker = Broker()
    broker.failed_up_to = 101  # it has records of a leader that the store does not know

    broker.machine.failed(broker.item)

    assert broker.write() is None


def test_a_log_that_serves_gives_up_nothing() -> None:
    broker = Broker()
    broker.is_failed = False  # its topic was made anew

    broker.machine.failed(broker.item)

    assert broker.write() is None


def test_only_the_registered_incarnation_writes() -> None:
    broker = Broker()
    broker.machine.failed(broker.item)

    write = broker.write()

    assert write is not None
    epoch = broker.cluster.image.brokers[1].epoch
    assert write.transaction.guards[0] == CreatedAt(b"broker/1", epoch)
    broker.cluster.store.expire(broker.cluster.leases[1])
    assert broker.cluster.store.transact(*write.transaction) is None


@pytest.mark.parametrize("is_known", [True, False])
def test_what_is_refused_or_not_known_is_decided_again(is_known: bool) -> None:
    broker = Broker()
    broker.machine.failed(broker.item)
    write = broker.write()
    assert write is not None

    (broker.machine.refused if is_known else broker.machine.unknown)(write, 0)
    assert broker.machine.due_ms == CLUSTER_RETRY_MS
    broker.machine.tick(CLUSTER_RETRY_MS)
    broker.settle()

    assert broker.state.leader == 2


def test_a_deleted_partition_is_forgotten() -> None:
    broker = Broker()

    broker.machine.failed((b"x" * 16, 0))

    assert broker.write() is None
