"""The leader's changes of the ISR: who joins and who leaves, and what a log waits for meanwhile."""

import pytest

from broker.core.cluster.isr import IsrChanges
from broker.core.cluster.records import NO_LEADER, PartitionState, committed
from broker.core.cluster.slices import complete
from broker.core.cluster.topic_settings import ReplicaSettings, TopicSettings
from broker.core.cluster.writes import Item, Write
from broker.core.configs import records as config_records
from broker.model.limits import CLUSTER_PARTITIONS_PER_STEP, CLUSTER_RETRY_MS
from broker.storage import metadata
from broker.storage.metadata import CreatedAt
from tests.unit.core.cluster.clusters import Cluster


class Leader:
    """Broker 1 of three, which leads partition 0 of a topic; its logs report what a test says."""

    def __init__(self, min_isr: int = 1) -> None:
        self.cluster = Cluster(3)
        self.item: Item = (self.cluster.create("t", (1, 2, 3)), 0)
        self.in_sync = {2, 3}
        self.settings = TopicSettings(self.cluster.image, lambda: ReplicaSettings(min_isr))
        epoch = self.cluster.image.brokers[1].epoch
        self.machine = IsrChanges(
            self.cluster.image, (1, epoch), self.settings, lambda _, each, __: each in self.in_sync
        )

    def epoch_of(self, broker_id: int) -> int:
        return self.cluster.image.brokers[broker_id].epoch

    def caught_up(self, broker_id: int) -> list[Item]:
        """Report a follower; return the partitions whose logs get the ISR anew."""
        self.machine.caught_up(self.item, broker_id, self.epoch_of(broker_id))
        return self.machine.take_changed()

    def refresh(self) -> None:
        cluster = self.cluster
        for changes in cluster.store.changes(cluster.image.revision):
            self.machine.image_changed(complete(cluster.image.apply(changes)))

    def write(self) -> Write | None:
        """Return the next transaction."""
        while self.machine.has_work:
            write = self.machine.work()
            if write is not None:
                return write
        return None

    def settle(self) -> None:
        """Apply whatever is written."""
        self.refresh()
        while (write := self.write() or self.given()) is not None:
            revision = self.cluster.store.transact(*write.transaction)
            if revision is None:
                self.machine.refused(write, 0)
            else:
                self.machine.applied(write, revision)
            self.refresh()

    def given(self) -> Write | None:
        """Let the logs have what has changed; return what can be written then."""
        self.machine.take_changed()
        return self.write()

    def shrink(self, *isr: int) -> None:
        state = self.cluster.state(*self.item)
        self.store(state._replace(isr=isr, partition_epoch=state.partition_epoch + 1))

    def store(self, state: PartitionState) -> None:
        other = Cluster()
        other.store = self.cluster.store
        other.put(*self.item, state)
        self.settle()

    def restart(self, broker_id: int) -> None:
        other = Cluster()
        other.store, other.leases = self.cluster.store, self.cluster.leases
        other.intact_since = self.cluster.intact_since
        other.refresh()
        other.restart(broker_id)
        self.refresh()

    @property
    def state(self) -> PartitionState:
        return self.cluster.state(*self.item)

    @property
    def maximal(self) -> tuple[int, ...]:
        return self.machine.maximal(self.item)


@pytest.fixture
def leader() -> Leader:
    return Leader()


# ---- who joins
# -------------------------------------------------------------------------------------------------


def test_a_follower_that_has_caught_up_is_waited_for_at_once_and_then_a_member(
    leader: Leader,
) -> None:
    leader.shrink(1, 3)

    assert leader.caught_up(2) == [leader.item]
    assert leader.machine.pending(leader.item) == (2,)
    assert leader.maximal == (1, 3, 2)
    assert leader.machine.committed(leader.item) == 2
    leader.settle()

    assert leader.state.isr == (1, 2, 3)
    assert leader.machine.pending(leader.item) == ()
    assert leader.machine.committed(leader.item) == 3


def test_nobody_is_added_before_the_log_waits_for_it(leader: Leader) -> None:
    leader.shrink(1)

    leader.machine.caught_up(leader.item, 2, leader.epoch_of(2))

    assert leader.write() is None
    leader.machine.take_changed()
    assert leader.write() is not None


def test_a_follower_that_is_behind_once_the_log_waits_for_it_is_not_added(leader: Leader) -> None:
    leader.shrink(1)
    leader.caught_up(2)
    leader.in_sync.clear()

    assert leader.write() is None

    assert leader.machine.take_changed() == [leader.item]  # the log waits for it no longer
    assert leader.maximal == (1,)


def test_another_incarnation_than_the_registered_one_is_not_added(leader: Leader) -> None:
    leader.shrink(1)

    leader.machine.caught_up(leader.item, 2, leader.epoch_of(2) - 1)

    assert leader.machine.take_changed() == [leader.item]
    assert leader.machine.pending(leader.item) == ()
    assert leader.write() is None


def test_a_write_has_the_guards_that_all_members_are_what_the_leader_knows(leader: Leader) -> None:
    leader.shrink(1, 3)
    leader.caught_up(2)

    write = leader.write()

    assert write is not None
    guards = set(write.transaction.guards)
    for each in (1, 2, 3):
        assert CreatedAt(b"broker/%d" % each, leader.epoch_of(each)) in guards
    assert leader.cluster.image.guard(*leader.item) in guards
    assert len(write.transaction.guards) == 4


def test_a_follower_that_restarts_meanwhile_is_not_added_by_a_late_write(leader: Leader) -> None:
    leader.shrink(1)
    leader.caught_up(2)
    write = leader.write()
    assert write is not None
    leader.restart(2)

    assert leader.cluster.store.transact(*write.transaction) is None
    leader.machine.refused(write, 0)
    leader.settle()

    assert leader.state.isr == (1,)
    assert leader.maximal == (1,)


def test_a_replica_that_was_removed_and_added_again_meanwhile_is_not_added_by_what_it_has_told(
    leader: Leader,
) -> None:
    leader.shrink(1)
    leader.caught_up(2)
    write = leader.write()
    assert write is not None
    leader.in_sync.clear()
    state = leader.cluster.state(*leader.item)
    other = Cluster()
    other.store = leader.cluster.store
    other.put(*leader.item, state._replace(replicas=(1, 3), leader_epoch=1, partition_epoch=8))
    other.put(*leader.item, state._replace(leader_epoch=1, adding=(2,), partition_epoch=9))
    image, seen = leader.cluster.image, leader.cluster.store.changes(leader.cluster.image.revision)
    deltas = [complete(image.apply(changes)) for changes in seen]

    leader.machine.refused(write, 0)
    leader.machine.image_changed(deltas[-1])  # it sees both at once
    leader.settle()

    assert (leader.state.isr, leader.maximal) == ((1,), (1,))


@pytest.mark.parametrize("outcome", ["refused", "unknown"])
def test_a_follower_is_waited_for_as_long_as_a_write_with_it_may_be_applied(
    leader: Leader, outcome: str
) -> None:
    leader.shrink(1)
    leader.caught_up(2)
    write = leader.write()
    assert write is not None

    getattr(leader.machine, outcome)(write, 0)
    leader.in_sync.clear()
    leader.machine.tick(CLUSTER_RETRY_MS)

    assert leader.maximal == (1, 2)
    again = leader.write()
    assert again is not None
    assert again.transaction == write.transaction


def test_a_lost_write_that_is_applied_late_makes_a_member(leader: Leader) -> None:
    leader.shrink(1)
    leader.caught_up(2)
    write = leader.write()
    assert write is not None
    leader.machine.unknown(write, 0)

    leader.cluster.store.transact(*write.transaction)
    leader.settle()

    assert (leader.state.isr, leader.machine.pending(leader.item)) == ((1, 2), ())
    leader.machine.tick(CLUSTER_RETRY_MS)
    assert leader.write() is None


def test_one_write_is_in_flight_for_a_partition(leader: Leader) -> None:
    leader.shrink(1)
    leader.caught_up(2)
    write = leader.write()
    assert write is not None

    leader.caught_up(3)

    assert leader.write() is None
    assert leader.maximal == (1, 2, 3)
    leader.machine.applied(write, leader.cluster.store.transact(*write.transaction) or 0)
    leader.settle()
    assert leader.state.isr == (1, 2, 3)


def test_who_is_a_member_already_or_no_replica_does_not_join(leader: Leader) -> None:
    leader.shrink(1, 2)
    leader.cluster.register(4)
    leader.settle()

    leader.caught_up(2)
    leader.caught_up(4)

    assert leader.maximal == (1, 2)
    assert leader.write() is None


# ---- who leaves
# -------------------------------------------------------------------------------------------------


def test_a_member_that_lags_is_waited_for_until_it_has_left(leader: Leader) -> None:
    leader.machine.lagging(leader.item, 2)
    write = leader.write()
    assert write is not None
    assert leader.maximal == (1, 2, 3)

    leader.machine.applied(write, leader.cluster.store.transact(*write.transaction) or 0)
    assert leader.maximal == (1, 2, 3)
    leader.refresh()
    assert leader.write() is None

    assert leader.machine.take_changed() == [leader.item]
    assert set(leader.maximal) == {1, 3}


def test_the_leader_does_not_leave(leader: Leader) -> None:
    leader.machine.lagging(leader.item, 1)
    leader.settle()

    assert leader.state.isr == (1, 2, 3)


@pytest.mark.parametrize(("min_isr", "elr"), [(1, ()), (2, (2, 3)), (3, (2, 3)), (9, (2, 3))])
def test_who_leaves_an_isr_that_becomes_too_small_is_in_the_elr(
    min_isr: int, elr: tuple[int, ...]
) -> None:
    leader = Leader(min_isr)
    leader.machine.lagging(leader.item, 2)
    leader.machine.lagging(leader.item, 3)

    leader.settle()

    assert (leader.state.isr, leader.state.elr) == ((1,), elr)
    assert leader.machine.committed(leader.item) == (0 if elr else 1)


def test_the_elr_is_emptied_when_the_isr_is_large_enough_again() -> None:
    leader = Leader(2)
    leader.machine.lagging(leader.item, 2)
    leader.machine.lagging(leader.item, 3)
    leader.settle()

    leader.caught_up(3)
    leader.settle()

    assert (leader.state.isr, leader.state.elr) == ((1, 3), ())
    assert leader.machine.committed(leader.item) == 2


def test_the_min_isr_of_a_topic_is_that_of_its_configuration(leader: Leader) -> None:
    key = metadata.topic_config_key("t")
    leader.cluster.store.transact([], [config_records.operation(key, {"min.insync.replicas": "3"})])
    leader.refresh()

    leader.machine.lagging(leader.item, 2)
    leader.settle()

    assert (leader.state.isr, leader.state.elr) == ((1, 3), (2,))


def test_a_member_that_was_emptied_leaves_with_the_next_write_and_is_in_no_elr() -> None:
    leader = Leader(3)
    leader.cluster.empty(2)
    leader.restart(2)

    leader.machine.lagging(leader.item, 3)
    leader.settle()

    assert (leader.state.isr, leader.state.elr) == ((1,), (3,))
    leader.caught_up(2)
    leader.settle()
    assert (leader.state.isr, leader.state.elr) == ((1, 2), (3,))


# ---- leaderships
# -------------------------------------------------------------------------------------------------


def test_nothing_is_changed_once_another_broker_leads(leader: Leader) -> None:
    leader.shrink(1, 2)
    leader.caught_up(3)
    led_by_2 = leader.state._replace(leader=2, broker_epoch=leader.epoch_of(2), leader_epoch=1)

    leader.store(led_by_2)

    assert leader.machine.pending(leader.item) == ()
    leader.caught_up(3)
    leader.machine.lagging(leader.item, 2)
    assert leader.write() is None
    assert leader.machine.take_changed() == []


def test_each_change_of_a_partition_that_it_leads_is_given_to_the_log(leader: Leader) -> None:
    state = leader.state._replace(isr=(1, 2), partition_epoch=1)
    other = Cluster()
    other.store = leader.cluster.store
    other.put(*leader.item, state)

    leader.refresh()
    assert leader.write() is None

    assert leader.machine.take_changed() == [leader.item]
    assert leader.maximal == (1, 2)


def test_a_partition_that_is_gone_has_no_members(leader: Leader) -> None:
    unknown = (b"?" * 16, 0)

    leader.machine.caught_up(unknown, 2, 1)
    leader.machine.lagging(unknown, 2)

    assert leader.machine.maximal(unknown) == ()
    assert leader.machine.committed(unknown) == 0
    assert leader.write() is None


def test_nothing_is_acknowledged_while_there_is_an_elr_or_no_leader() -> None:
    state = PartitionState(1, 0, 1, (1, 2, 3), (1, 2), 0)

    assert committed(state) == 2
    assert committed(state._replace(elr=(3,))) == 0
    assert committed(state._replace(leader=NO_LEADER)) == 0


@pytest.mark.parametrize("configured", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("adding", [(), (3,), (3, 4), (2, 3, 4)])
def test_replicas_that_are_being_added_do_not_raise_what_is_needed(
    adding: tuple[int, ...], configured: int
) -> None:
    for members in (1, 2, 3, 4):
        isr = (1, 2, 3, 4)[:members]
        state = PartitionState(1, 3, 7, (1, 2, 3, 4), isr, 2, adding=adding)

        # As a log compares them (src/_native/log/replication.pyx).
        has_enough = committed(state) >= min(configured, len(state.replicas))

        assert has_enough == (members >= state.min_isr(configured))


def test_logs_are_given_what_has_changed_in_parts() -> None:
    leader = Leader()
    count = 2 * CLUSTER_PARTITIONS_PER_STEP + 1
    topic_id = leader.cluster.create("many", *[(1, 2, 3)] * count)
    for each in range(count):
        state = leader.cluster.state(topic_id, each)._replace(isr=(1, 2), partition_epoch=1)
        leader.cluster.put(topic_id, each, state)
    for each in range(count):
        leader.machine.caught_up((topic_id, each), 3, leader.epoch_of(3))

    parts = []
    while part := leader.machine.take_changed():
        parts.append(part)

    assert [len(each) for each in parts] == [CLUSTER_PARTITIONS_PER_STEP] * 2 + [1]
    assert {number for part in parts for _, number in part} == set(range(count))


def test_a_follower_is_not_written_before_its_log_waits_for_it() -> None:
    leader = Leader()
    leader.shrink(1, 2)
    leader.machine.caught_up(leader.item, 3, leader.epoch_of(3))

    assert leader.write() is None
    assert leader.machine.take_changed() == [leader.item]
    assert leader.write() is not None
