"""The controller: elections, the ISR, balance, left-over keys, and what it does not change."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.cluster import election, eligibility, records, topics
from broker.core.cluster.controller import Controller, ControllerSettings, claim
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import NO_LEADER, PartitionState, TopicRecord
from broker.core.cluster.slices import complete
from broker.core.cluster.topic_settings import ReplicaSettings
from broker.core.cluster.writes import Write
from broker.model.limits import (
    CLUSTER_CHANGES_PER_TRANSACTION,
    CLUSTER_RETRY_MS,
    CLUSTER_WRITES_IN_FLIGHT_MAX,
    DELETED_TOPIC_DAYS,
    DELETED_TOPICS_LOOK_MS,
)
from broker.storage import metadata
from broker.storage.metadata import CreatedAt, Delete, Put
from tests.unit.core.cluster.clusters import Cluster

WALL_MS = 1_700_000_000_000
DAY_MS = 86_400_000
SETTINGS = ControllerSettings(is_shared=False)
SHARED = ControllerSettings(is_shared=True)


class Office:
    """A cluster with a controller, whose transactions are applied when a test says so."""

    def __init__(
        self, brokers: int = 3, settings: ControllerSettings = SETTINGS, controller: int = 1
    ) -> None:
        self.cluster = Cluster(brokers)
        self.cluster.take_office(controller)
        self.now_ms = 0
        self.settings = settings
        self.controller = self.term()

    def term(self) -> Controller:
        return Controller(self.cluster.image, self.settings, self.now_ms, WALL_MS)

    def refresh(self) -> None:
        """Let the image and the controller see all changes."""
        cluster = self.cluster
        for changes in cluster.store.changes(cluster.image.revision):
            self.controller.image_changed(complete(cluster.image.apply(changes)))

    def writes(self) -> Iterator[Write]:
        """Yield the transactions that are to be made now."""
        while self.controller.has_work:
            write = self.controller.work()
            if write is not None:
                yield write

    def settle(self) -> list[Write]:
        """Apply whatever the controller writes, and return it."""
        made = []
        self.refresh()
        for write in self.writes():
            made.append(write)
            revision = self.cluster.store.transact(*write.transaction)
            if revision is None:
                self.controller.refused(write, self.now_ms)
            else:
                self.controller.applied(write, revision)
            self.refresh()
        return made

    def change(self, name: str, broker_id: int) -> None:
        """Let a broker fail, restart, drain, with the controller seeing it."""
        store, image = self.cluster.store, self.cluster.image
        other = Cluster()
        other.store, other.leases = store, self.cluster.leases
        other.intact_since = self.cluster.intact_since
        complete(other.image.load(*store.scan()))
        getattr(other, name)(broker_id)
        assert image.revision <= store.revision
        self.refresh()

    def tick(self, seconds: float = 0, wall_ms: int = WALL_MS) -> None:
        self.now_ms += int(seconds * 1_000)
        self.controller.tick(self.now_ms, wall_ms)


@pytest.fixture
def office() -> Office:
    return Office()


# ---- office
# -------------------------------------------------------------------------------------------------


def test_of_two_brokers_that_claim_the_office_one_gets_it() -> None:
    cluster = Cluster(2)
    claims = [
        claim(cluster.image, each, cluster.image.brokers[each].epoch, cluster.leases[each])
        for each in (1, 2)
    ]

    first, second = (cluster.store.transact(*each) for each in claims if each is not None)
    cluster.refresh()

    assert first is not None
    assert second is None
    assert cluster.image.controller is not None
    assert cluster.image.controller.epoch == first
    assert cluster.image.is_controller(1, cluster.image.brokers[1].epoch)
    assert claim(cluster.image, 2, cluster.image.brokers[2].epoch, 2) is None


def test_the_office_is_vacant_when_the_lease_of_the_controller_ends() -> None:
    cluster = Cluster(2)
    cluster.take_office(1)

    cluster.fail(1)

    assert cluster.image.controller is None
    assert claim(cluster.image, 2, cluster.image.brokers[2].epoch, 2) is not None


def test_only_a_registered_broker_claims_the_office_and_a_draining_one_only_if_no_other_runs() -> (
    None
):
    cluster = Cluster(2)
    epoch = cluster.image.brokers[1].epoch
    cluster.drain(1)

    assert claim(cluster.image, 3, 1, 1) is None
    assert claim(cluster.image, 1, epoch + 100, 1) is None
    assert claim(cluster.image, 1, epoch, 1) is None
    cluster.drain(2)
    assert claim(cluster.image, 1, epoch, 1) is not None


def test_a_claim_of_a_broker_whose_lease_has_ended_is_refused() -> None:
    cluster = Cluster(2)
    late = claim(cluster.image, 1, cluster.image.brokers[1].epoch, 0)
    cluster.fail(1)

    assert late is not None
    assert cluster.store.transact(*late) is None


def test_every_transaction_is_guarded_by_the_office(office: Office) -> None:
    office.cluster.create("t", (2, 1))
    office.change("fail", 2)

    (write,) = office.settle()

    assert office.cluster.image.controller is not None
    assert write.transaction.guards[0] == CreatedAt(
        records.CONTROLLER, office.cluster.image.controller.epoch
    )


def test_a_controller_that_lost_its_office_without_knowing_it_changes_nothing(
    office: Office,
) -> None:
    topic_id = office.cluster.create("t", (2, 3))
    office.change("fail", 2)
    write = next(office.writes())
    store = office.cluster.store
    store.transact([], [Delete(records.CONTROLLER)])
    store.transact([], [Put(records.CONTROLLER, b'{"version": 1, "broker": 3, "broker_epoch": 3}')])

    assert store.transact(*write.transaction) is None

    office.refresh()
    assert not office.controller.is_in_office
    assert not office.controller.has_work
    assert office.controller.work() is None
    assert office.cluster.state(topic_id).leader == 2


# ---- elections
# -------------------------------------------------------------------------------------------------


def test_the_partitions_of_a_failed_broker_get_other_leaders_and_smaller_isrs(
    office: Office,
) -> None:
    led, followed, other = (
        office.cluster.create("a", (2, 3, 1)),
        office.cluster.create("b", (1, 2, 3)),
        office.cluster.create("c", (1, 3)),
    )
    office.settle()
    office.change("fail", 2)

    office.settle()

    epoch = office.cluster.image.brokers[3].epoch
    assert office.cluster.state(led) == PartitionState(3, 1, epoch, (2, 3, 1), (3, 1), 1)
    assert office.cluster.state(followed)[3:7] == ((1, 2, 3), (1, 3), 1, NO_LEADER)
    assert office.cluster.state(followed).leader_epoch == 0
    assert office.cluster.state(other).partition_epoch == 0


def test_partitions_without_a_leader_come_before_those_with_a_smaller_isr(office: Office) -> None:
    followed = [office.cluster.create(f"a{each}", (1, 2)) for each in range(5)]
    led = [office.cluster.create(f"b{each}", (2, 1)) for each in range(5)]
    office.settle()
    office.change("fail", 2)

    (write,) = office.settle()

    assert [topic_id for topic_id, _ in write.items] == led + followed


def test_a_restarted_leader_is_elected_again_in_its_new_incarnation(office: Office) -> None:
    topic_id = office.cluster.create("t", (2,))
    office.change("restart", 2)

    office.settle()

    epoch = office.cluster.image.brokers[2].epoch
    assert office.cluster.state(topic_id).is_served_by(2, epoch)


def test_a_partition_whose_replicas_are_gone_waits_for_a_member_of_its_isr(office: Office) -> None:
    topic_id = office.cluster.create("t", (2, 3))
    office.change("fail", 3)
    office.settle()
    office.change("fail", 2)
    office.settle()
    waiting = office.cluster.state(topic_id)
    office.change("restart", 3)
    assert office.settle() == []

    office.change("restart", 2)
    office.settle()

    assert (waiting.leader, waiting.isr) == (NO_LEADER, (2,))
    assert office.cluster.state(topic_id).leader == 2
    assert office.cluster.state(topic_id).leader_epoch == waiting.leader_epoch + 1


def test_a_draining_brokers_partitions_get_a_successor(office: Office) -> None:
    led, alone = office.cluster.create("a", (2, 3)), office.cluster.create("b", (2,))
    office.change("drain", 2)

    office.settle()

    assert office.cluster.state(led).successor == 3
    assert office.cluster.state(led).leader_epoch == 0
    assert office.cluster.state(alone).leader == 2


def test_a_new_controller_repairs_what_happened_while_there_was_none() -> None:
    office = Office()
    topic_id = office.cluster.create("t", (2, 3))
    office.cluster.fail(2)  # which no controller sees
    office.controller = office.term()

    office.settle()

    assert office.cluster.state(topic_id).leader == 3


def test_partitions_added_for_a_restarted_broker_are_elected(office: Office) -> None:
    topic_id = office.cluster.create("t", (2,))
    office.change("restart", 2)
    office.settle()
    topic = office.cluster.image.topic("t")
    assert topic is not None
    office.cluster.store.transact(*topics.enlargement(office.cluster.image, topic, ((2,),)))

    office.settle()

    epoch = office.cluster.image.brokers[2].epoch
    assert office.cluster.state(topic_id, 1).is_served_by(2, epoch)


def test_a_leader_that_changes_the_isr_at_the_same_time_wins_and_is_respected(
    office: Office,
) -> None:
    topic_id = office.cluster.create("t", (2, 3, 1))
    office.change("fail", 2)
    write = next(office.writes())
    shrunk = PartitionState(2, 0, 2, (2, 3, 1), (2, 1), 1)
    key = records.partition_key(topic_id, 0)
    office.cluster.store.transact([], [Put(key, records.partition_value(shrunk))])

    assert office.cluster.store.transact(*write.transaction) is None
    office.controller.refused(write, office.now_ms)
    office.settle()

    assert office.cluster.state(topic_id)[:2] == (1, 1)
    assert office.cluster.state(topic_id).isr == (1,)


# ---- transactions
# -------------------------------------------------------------------------------------------------


def many(office: Office, partitions: int) -> bytes:
    topic_id = office.cluster.create("many", *[(2, 3)] * partitions)
    office.settle()
    office.change("fail", 2)
    return topic_id


def test_transactions_are_limited_in_size_and_number(office: Office) -> None:
    many(office, 1_000)

    writes = list(office.writes())

    assert len(writes) == CLUSTER_WRITES_IN_FLIGHT_MAX
    for write in writes:
        assert len(write.transaction.operations) == CLUSTER_CHANGES_PER_TRANSACTION
        of_office_and_new_leader = 2
        guards = write.transaction.guards
        assert len(guards) == CLUSTER_CHANGES_PER_TRANSACTION + of_office_and_new_leader
        assert len(set(guards)) == len(guards)
    assert len({item for write in writes for item in write.items}) == 400


def test_a_partition_is_not_written_again_before_the_image_has_the_first_change(
    office: Office,
) -> None:
    topic_id = many(office, 1)
    write = next(office.writes())
    revision = office.cluster.store.transact(*write.transaction)
    assert revision is not None
    office.change("fail", 3)  # seen before the answer, with the change

    assert list(office.writes()) == []
    office.controller.applied(write, revision)
    (second,) = office.settle()

    assert second.items == [(topic_id, 0)]
    assert office.cluster.state(topic_id)[:2] == (NO_LEADER, 2)


def test_an_answer_before_the_change_waits_for_it(office: Office) -> None:
    topic_id = many(office, 1)
    write = next(office.writes())
    revision = office.cluster.store.transact(*write.transaction)
    assert revision is not None

    office.controller.applied(write, revision)
    office.controller.prefer_leaders([(topic_id, 0)])
    assert list(office.writes()) == []
    office.refresh()

    assert list(office.writes()) == []
    assert office.cluster.state(topic_id).leader == 3


def test_what_was_refused_is_decided_again_when_the_image_changes_in_smaller_transactions(
    office: Office,
) -> None:
    many(office, 80)
    write = next(office.writes())

    office.controller.refused(write, office.now_ms)
    assert not office.controller.has_work
    office.cluster.store.transact([], [Put(b"conf/broker/", b"")])
    office.refresh()

    first, second = office.writes()
    assert {len(each.items) for each in (first, second)} == {50, 30}
    assert sorted([*first.items, *second.items]) == sorted(write.items)


@pytest.mark.parametrize("outcome", ["refused", "unknown"])
def test_what_was_refused_or_is_unknown_is_decided_again_after_a_time(
    office: Office, outcome: str
) -> None:
    many(office, 2)
    write = next(office.writes())

    getattr(office.controller, outcome)(write, office.now_ms)
    assert not office.controller.has_work
    assert office.controller.due_ms <= office.now_ms + CLUSTER_RETRY_MS
    office.tick(CLUSTER_RETRY_MS / 1_000)

    assert [each.items for each in office.writes()] == [write.items]


@pytest.mark.parametrize("outcome", ["refused", "unknown"])
def test_a_growth_whose_write_was_lost_is_written_again(outcome: str) -> None:
    office = Office(settings=ControllerSettings(is_shared=False, internal_factors=(("t", 3),)))
    topic_id = office.cluster.create("t", (1,))
    office.refresh()
    write = next(office.writes())

    getattr(office.controller, outcome)(write, office.now_ms)
    office.tick(CLUSTER_RETRY_MS / 1_000)

    assert [each.items for each in office.settle()] == [write.items]
    assert office.cluster.state(topic_id).replicas == (1, 2, 3)
    assert office.settle() == []


def test_a_change_of_unknown_outcome_that_is_applied_late_is_no_second_one(office: Office) -> None:
    topic_id = many(office, 1)
    lost = next(office.writes())
    office.controller.unknown(lost, office.now_ms)
    office.tick(CLUSTER_RETRY_MS / 1_000)
    again = next(office.writes())
    store = office.cluster.store
    late = store.transact(*lost.transaction)
    assert late is not None

    assert store.transact(*again.transaction) is None
    office.controller.refused(again, office.now_ms)

    assert office.settle() == []
    assert office.cluster.state(topic_id)[:2] == (3, 1)


def test_what_is_refused_twice_is_written_by_one_transaction_at_a_time(office: Office) -> None:
    many(office, 1)
    write = next(office.writes())
    office.controller.refused(write, office.now_ms)
    office.cluster.store.transact([], [Put(b"conf/broker/", b"")])
    office.refresh()
    again = next(office.writes())

    office.tick(CLUSTER_RETRY_MS / 1_000)  # the time of the first one

    assert again.items == write.items
    assert list(office.writes()) == []


# ---- left-over keys
# -------------------------------------------------------------------------------------------------


def test_states_of_deleted_topics_are_deleted(office: Office) -> None:
    topic_id = many(office, 250)
    office.settle()
    topic = office.cluster.image.topic("many")
    assert topic is not None
    deletion = complete(topics.deletion(office.cluster.image, topic, WALL_MS))
    office.cluster.store.transact(*deletion)

    office.settle()

    assert topic_id not in office.cluster.image.stored
    assert not office.cluster.store.scan()[0][-1].key.startswith(records.PARTITIONS)


def test_states_that_are_written_after_the_deletion_are_deleted_too(office: Office) -> None:
    key = records.partition_key(bytes(16), 3)
    state = PartitionState(1, 1, 1, (1,), (1,), 1)
    office.cluster.store.transact([], [Put(key, records.partition_value(state))])

    office.settle()

    assert office.cluster.store.get(key) is None


def deleted(office: Office, *confirmed: int) -> bytes:
    topic_id = office.cluster.create("t", (1, 2))
    topic = office.cluster.image.topic("t")
    assert topic is not None
    office.cluster.commit(complete(topics.deletion(office.cluster.image, topic, WALL_MS)))
    office.controller = office.term()
    for broker_id in confirmed:
        confirmation = topics.confirmation(office.cluster.image, topic_id, broker_id)
        assert confirmation is not None
        office.cluster.store.transact(*confirmation)
        office.refresh()
    office.settle()
    return topic_id


def test_a_deleted_topic_is_forgotten_once_all_its_brokers_have_confirmed(office: Office) -> None:
    topic_id = deleted(office, 1)
    assert topic_id in office.cluster.image.deleted
    confirmation = topics.confirmation(office.cluster.image, topic_id, 2)
    assert confirmation is not None
    office.cluster.store.transact(*confirmation)

    office.settle()

    assert topic_id not in office.cluster.image.deleted


def test_a_deleted_topic_is_forgotten_after_some_days_without_a_broker_that_is_gone(
    office: Office,
) -> None:
    topic_id = deleted(office, 1)
    days = DELETED_TOPIC_DAYS * DAY_MS

    office.tick(DELETED_TOPICS_LOOK_MS / 1_000, WALL_MS + days - 1)
    office.settle()
    assert topic_id in office.cluster.image.deleted
    office.tick(DELETED_TOPICS_LOOK_MS / 1_000, WALL_MS + days)
    office.settle()

    assert topic_id not in office.cluster.image.deleted


def test_the_deleted_topics_of_a_standalone_broker_are_left_alone(office: Office) -> None:
    value = records.deleted_value(records.DeletedTopic("t", 1))
    office.cluster.store.transact([], [Put(metadata.deleted_topic_key(bytes(16)), value)])
    office.tick(DELETED_TOPICS_LOOK_MS / 1_000, WALL_MS + 100 * DAY_MS)

    assert office.settle() == []


# ---- balance
# -------------------------------------------------------------------------------------------------


def moved(office: Office, partitions: int, others: int) -> bytes:
    """Return a topic of which broker 2 is the preferred leader; 3 leads the others."""
    topic_id = office.cluster.create("t", *[(2, 3)] * partitions)
    for each in range(others):
        state = PartitionState(3, 1, office.cluster.image.brokers[3].epoch, (2, 3), (2, 3), 1)
        key = records.partition_key(topic_id, each)
        office.cluster.store.transact([], [Put(key, records.partition_value(state))])
    office.settle()
    return topic_id


@pytest.mark.parametrize(("others", "is_balanced"), [(1, True), (2, False), (10, False)])
def test_preferred_leaders_become_successors_where_too_many_others_lead(
    office: Office, others: int, is_balanced: bool
) -> None:
    topic_id = moved(office, 10, others)
    office.tick(299)
    assert office.settle() == []

    office.tick(1)
    office.settle()

    successors = [office.cluster.state(topic_id, each).successor for each in range(10)]
    expected = [] if is_balanced else [2] * others
    assert [each for each in successors if each != NO_LEADER] == expected


def test_balancing_can_be_switched_off() -> None:
    office = Office(settings=SETTINGS._replace(is_balancing=False))
    moved(office, 10, 10)
    office.tick(300)

    assert office.settle() == []


def test_preferred_leaders_become_successors_when_an_operator_asks(office: Office) -> None:
    topic_id = moved(office, 10, 1)
    office.controller.prefer_leaders([(topic_id, 0), (topic_id, 1), (topic_id, 99)])

    office.settle()

    assert office.cluster.state(topic_id, 0).successor == 2
    assert office.cluster.state(topic_id, 1).partition_epoch == 0


# ---- brokers that share one data directory
# -------------------------------------------------------------------------------------------------


def test_in_a_shared_directory_a_failed_brokers_partitions_are_spread_over_the_others() -> None:
    office = Office(4, SHARED)
    topic_id = office.cluster.create("t", *[(2,)] * 9)
    office.change("fail", 2)

    office.settle()

    states = [office.cluster.state(topic_id, each) for each in range(9)]
    assert {each: [state.leader for state in states].count(each) for each in (1, 3, 4)} == {
        1: 3,
        3: 3,
        4: 3,
    }
    assert all(state.replicas == state.isr == (state.leader,) for state in states)


def test_in_a_shared_directory_partitions_return_to_where_they_were_placed() -> None:
    office = Office(3, SHARED)
    topic_id = office.cluster.create("t", *[(2,)] * 4)
    office.change("fail", 2)
    office.settle()
    office.change("restart", 2)
    assert office.settle() == []

    office.tick(300)
    office.settle()

    assert {office.cluster.state(topic_id, each).successor for each in range(4)} == {2}


def test_in_a_shared_directory_a_standalone_brokers_topics_get_leaders() -> None:
    office = Office(2, SHARED)
    record = TopicRecord(bytes(16), 4, (), {})
    office.cluster.store.transact([], [Put(metadata.topic_key("t"), records.topic_value(record))])

    office.settle()
    office.tick(300)
    office.settle()

    leaders = [office.cluster.state(bytes(16), each).leader for each in range(4)]
    assert sorted(leaders) == [1, 1, 2, 2]


def test_brokers_with_their_own_directories_do_not_take_a_standalone_brokers_topics() -> None:
    office = Office(2)
    record = TopicRecord(bytes(16), 4, (), {})
    office.cluster.store.transact([], [Put(metadata.topic_key("t"), records.topic_value(record))])
    office.tick(300)

    assert office.settle() == []


# ---- anything
# -------------------------------------------------------------------------------------------------


def disturb(office: Office, rng: Random) -> None:
    """Do anything that can happen to a cluster, without the controller's seeing it."""
    cluster = office.cluster
    other = Cluster()
    other.store, other.leases = cluster.store, cluster.leases
    complete(other.image.load(*cluster.store.scan()))
    broker_id = rng.choice((2, 3, 4))  # broker 1 remains the controller
    happens = rng.choice(("fail", "restart", "drain", "create", "enlarge", "delete", "isr"))
    named = sorted(other.image.topic_ids)
    if happens in ("restart", "drain") or (happens == "fail" and broker_id in other.leases):
        getattr(other, happens)(broker_id)
    elif happens == "create":
        factor = rng.randint(1, len(other.image.brokers))
        placed = other.place(rng.randint(1, 5), factor, rng.randrange(9))
        other.create(f"t{cluster.store.revision}", *placed)
    elif happens == "enlarge" and named:
        topic = other.image.topic(rng.choice(named))
        assert topic is not None
        other.commit(topics.enlargement(other.image, topic, other.place(1, 1)))
    elif happens == "delete" and named:
        topic = other.image.topic(rng.choice(named))
        assert topic is not None
        other.commit(complete(topics.deletion(other.image, topic, WALL_MS)))
    elif happens == "isr" and named:
        change_isr(other, other.image.topic_ids[rng.choice(named)])


def change_isr(cluster: Cluster, topic_id: bytes) -> None:
    """Let a leader remove all followers, or add all that are registered."""
    state = cluster.state(topic_id)
    if cluster.image.is_registered(state.leader, state.broker_epoch):
        isr = tuple(each for each in state.replicas if each in cluster.image.brokers)
        smaller = (state.leader,) if len(state.isr) == len(isr) else isr
        cluster.put(
            topic_id, 0, state._replace(isr=smaller, partition_epoch=state.partition_epoch + 1)
        )


@given(st.integers(0, 1 << 32), st.integers(1, 15))
def test_whatever_happens_the_controller_settles_and_leaves_nothing_to_do(
    seed: int, events: int
) -> None:
    rng = Random(seed)
    office = Office(4)
    in_flight: list[Write] = []
    epochs: dict[Any, int] = {}
    for _ in range(events):
        disturb(office, rng)
        if rng.random() < 0.7:
            office.refresh()
        in_flight += office.writes()
        while in_flight and rng.random() < 0.7:
            write = in_flight.pop(rng.randrange(len(in_flight)))
            outcome = rng.choice(("answered", "answered", "lost", "never arrived"))
            revision = (
                None
                if outcome == "never arrived"
                else office.cluster.store.transact(*write.transaction)
            )
            if outcome != "answered":
                office.controller.unknown(write, office.now_ms)
            elif revision is None:
                office.controller.refused(write, office.now_ms)
            else:
                office.controller.applied(write, revision)
            check_epochs(office.cluster, epochs)
    for write in in_flight:
        office.controller.unknown(write, office.now_ms)
    office.tick(CLUSTER_RETRY_MS / 1_000)
    office.settle()

    image = office.cluster.image
    assert image.stored.keys() <= image.topics.keys()
    for topic_id, topic in image.topics.items():
        for partition in range(topic.record.partitions):
            found = eligibility.known(image, topic_id, partition)
            assert found is not None
            assert election.next_state(found) is None
    check_epochs(office.cluster, epochs)


def check_epochs(cluster: Cluster, epochs: dict[Any, int]) -> None:
    """Check that leader epochs only rise, and with the leader's incarnation."""
    image = ClusterImage()
    complete(image.load(*cluster.store.scan()))
    for topic_id, topic in image.topics.items():
        for partition in range(topic.record.partitions):
            state = image.state(topic_id, partition)
            assert state is not None
            elected = (topic_id, partition, state.leader, state.broker_epoch)
            assert epochs.setdefault(elected, state.leader_epoch) <= state.leader_epoch
            newest = epochs.get((topic_id, partition), 0)
            assert newest <= state.leader_epoch
            epochs[topic_id, partition] = state.leader_epoch


# ---- unclean elections
# -------------------------------------------------------------------------------------------------


class Asking(Office):
    """The controller asks for the ends of replicas before an unclean election."""

    def __init__(self, *, is_unclean_allowed: bool = True) -> None:
        super().__init__(
            settings=ControllerSettings(
                is_shared=False, defaults=ReplicaSettings(1, is_unclean_allowed)
            )
        )
        self.topic_id = self.cluster.create("t", (2, 1, 3))
        state = self.cluster.state(self.topic_id)
        self.cluster.put(self.topic_id, 0, state._replace(isr=(2,), partition_epoch=1))
        self.settle()
        self.change("fail", 2)
        self.settle()

    def term(self) -> Controller:
        return Controller(
            self.cluster.image, self.settings, self.now_ms, WALL_MS, asks_for_ends=True
        )

    @property
    def leader(self) -> int:
        return self.cluster.state(self.topic_id).leader


def test_nobody_is_elected_uncleanly_before_the_replicas_have_answered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    office = Asking()
    item = (office.topic_id, 0)
    assert office.leader == NO_LEADER
    assert office.controller.take_asked() == [item]
    office.change("drain", 1)
    office.settle()
    assert office.controller.take_asked() == [], "the answer is under way"

    office.controller.answered({item: (3, 1, 2)})
    office.settle()

    state = office.cluster.state(office.topic_id)
    assert (state.leader, state.isr, state.elr) == (3, (3,), ())
    assert "unclean election" in caplog.text
    assert "isr_before=(2,)" in caplog.text


def test_a_member_that_comes_back_meanwhile_is_elected(caplog: pytest.LogCaptureFixture) -> None:
    office = Asking()
    office.change("restart", 2)

    office.controller.answered({(office.topic_id, 0): (3, 1, 2)})
    office.settle()

    assert office.leader == 2
    assert "unclean election" not in caplog.text


def test_an_unclean_election_is_logged_when_it_is_applied_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    office = Asking()
    controller = office.controller
    controller.answered({(office.topic_id, 0): (3, 1, 2)})
    (write,) = office.writes()
    assert "unclean election" not in caplog.text, "it is only decided"

    office.change("fail", 3)
    assert office.cluster.store.transact(*write.transaction) is None
    controller.refused(write, office.now_ms)
    office.change("restart", 2)
    office.tick(1)
    office.settle()

    assert office.leader == 2
    assert "unclean election" not in caplog.text


@pytest.mark.parametrize("is_applied", [True, False])
def test_an_unclean_election_of_unknown_outcome_is_logged_if_the_image_shows_it(
    caplog: pytest.LogCaptureFixture, *, is_applied: bool
) -> None:
    office = Asking()
    controller = office.controller
    controller.answered({(office.topic_id, 0): (3, 1, 2)})
    (write,) = office.writes()
    if is_applied:
        office.cluster.store.transact(*write.transaction)
    else:
        office.change("restart", 2)

    controller.unknown(write, office.now_ms)
    office.settle()
    assert "unclean election" not in caplog.text
    office.tick(1)
    office.settle()

    assert office.leader == (3 if is_applied else 2)
    assert caplog.text.count("unclean election") == is_applied


def test_replicas_are_asked_again_for_the_next_election() -> None:
    office = Asking()
    item = (office.topic_id, 0)
    office.controller.take_asked()
    office.controller.answered({item: (3, 1, 2)})
    office.settle()

    office.change("fail", 3)
    office.settle()

    assert office.leader == NO_LEADER
    assert office.controller.take_asked() == [item]
    office.controller.answered({item: ()})  # of a topic that is unknown by then
    office.settle()
    assert office.controller.take_asked() == [item]


def test_replicas_are_not_asked_where_nobody_may_be_elected_uncleanly() -> None:
    office = Asking(is_unclean_allowed=False)

    assert office.controller.take_asked() == []
    assert office.leader == NO_LEADER
