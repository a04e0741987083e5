"""Elections and reassignments of many partitions, against a store that others change, too."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broker.core.cluster import records, topics
from broker.core.cluster.records import NO_EPOCH, NO_LEADER
from broker.core.cluster.slices import complete
from broker.core.cluster.topic_settings import ReplicaSettings, TopicSettings
from broker.core.cluster.writes import Item
from broker.core.partition_changes import PartitionChanges
from broker.core.replica_ends import End
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import (
    CLUSTER_CHANGES_PER_TRANSACTION,
    METADATA_OPS_PER_TRANSACTION_MAX,
)
from broker.storage.metadata import Guard, Operation
from tests.support.memory_cluster import MemoryMetadata
from tests.unit.core.cluster.clusters import Cluster

TIMED_OUT = ErrorCode.REQUEST_TIMED_OUT


class Metadata(MemoryMetadata):
    """The metadata of a broker; something happens before its changes.

    Attributes:
        sizes: operations of each change that was tried.
        before: called before each change.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster.store)
        self.sizes: list[int] = []
        self.before: Callable[[], object] = lambda: None

    async def transact(
        self, guards: Sequence[Guard], operations: Sequence[Operation]
    ) -> int | None:
        assert len(guards) <= METADATA_OPS_PER_TRANSACTION_MAX
        assert len(set(guards)) == len(guards)
        self.sizes.append(len(operations))
        self.before()
        return await super().transact(guards, operations)


class Operator:
    """Three brokers with partitions of two replicas each; broker 3 is asked."""

    def __init__(self, partitions: int = 1, *, is_shared: bool = False) -> None:
        self.cluster = Cluster(3)
        replicas = (1,) if is_shared else (1, 2)
        self.topic_id = self.cluster.create("t", *[replicas] * partitions)
        self.items: list[Item] = [(self.topic_id, each) for each in range(partitions)]
        self.metadata = Metadata(self.cluster)
        settings = TopicSettings(self.metadata.image, ReplicaSettings)
        self.changes = PartitionChanges(self.metadata, 3, settings, is_shared=is_shared)

    def reassign(self, target: Sequence[int] | None = (2, 3)) -> dict[Item, RequestError]:
        return asyncio.run(self.changes.reassign(dict.fromkeys(self.items, target)))

    def touch(self, partition: int) -> None:
        """Change a partition as its leader does, unseen by the broker that is asked."""
        state = self.cluster.state(self.topic_id, partition)
        changed = state._replace(partition_epoch=state.partition_epoch + 1)
        self.cluster.put(self.topic_id, partition, changed)

    def replicas(self, partition: int = 0) -> records.Replicas:
        self.cluster.refresh()
        return self.cluster.state(self.topic_id, partition).replicas


def test_many_partitions_share_transactions() -> None:
    operator = Operator(CLUSTER_CHANGES_PER_TRANSACTION * 2 + 1)

    assert operator.reassign() == {}

    assert {operator.replicas(number) for _, number in operator.items} == {(2, 3, 1)}
    assert operator.metadata.sizes == [CLUSTER_CHANGES_PER_TRANSACTION] * 2 + [1]


def test_a_partition_that_has_changed_meanwhile_is_decided_again() -> None:
    operator = Operator(30)

    def touch_once() -> None:
        if operator.metadata.sizes == [30]:
            operator.touch(7)

    operator.metadata.before = touch_once

    assert operator.reassign() == {}

    assert {operator.replicas(number) for _, number in operator.items} == {(2, 3, 1)}
    assert operator.cluster.state(operator.topic_id, 7).partition_epoch == 2


def test_one_partition_that_always_changes_fails_alone() -> None:
    operator = Operator(120)
    operator.metadata.before = lambda: operator.touch(7)

    errors = operator.reassign()

    assert {item: error.code for item, error in errors.items()} == {
        (operator.topic_id, 7): TIMED_OUT
    }
    changed = [n for _, n in operator.items if operator.replicas(n) == (2, 3, 1)]
    assert changed == [n for _, n in operator.items if n != 7]
    assert operator.metadata.sizes[-1] == 1


def test_a_topic_that_was_deleted_meanwhile_has_no_partitions() -> None:
    operator = Operator(2)

    def delete() -> None:
        topic = operator.cluster.image.topic("t")
        if topic is not None:
            operator.cluster.commit(complete(topics.deletion(operator.cluster.image, topic, 0)))

    operator.metadata.before = delete
    errors = operator.reassign()

    assert {error.code for error in errors.values()} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert errors.keys() == set(operator.items)


def test_a_store_that_fails_is_the_error_of_all() -> None:
    operator = Operator(2)
    operator.metadata.is_unavailable = True

    errors = operator.reassign()

    assert errors.keys() == set(operator.items)


def test_a_broker_that_is_not_registered_changes_nothing() -> None:
    operator = Operator(2)
    operator.cluster.fail(3)
    operator.metadata.catch_up()

    errors = operator.reassign((2,))

    assert {error.code for error in errors.values()} == {TIMED_OUT}
    assert operator.replicas() == (1, 2)


def test_a_broker_whose_registration_ends_meanwhile_changes_nothing() -> None:
    operator = Operator()

    def fail_once() -> None:
        if 3 in operator.cluster.leases:
            operator.cluster.fail(3)

    operator.metadata.before = fail_once

    errors = operator.reassign((2,))

    assert {error.code for error in errors.values()} == {TIMED_OUT}
    assert operator.replicas() == (1, 2)


def test_the_present_replicas_in_their_order_are_no_change() -> None:
    operator = Operator(3)

    assert operator.reassign((1, 2)) == {}
    assert operator.metadata.sizes == []
    assert operator.reassign((2, 1)) == {}
    assert operator.replicas() == (2, 1)


# ---- brokers that share a data directory


@pytest.mark.parametrize(
    ("target", "code"),
    [
        ((1,), None),
        ((2,), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ((1, 2), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
    ],
)
def test_workers_have_one_replica_where_it_is(
    target: Sequence[int] | None, code: ErrorCode | None
) -> None:
    operator = Operator(is_shared=True)

    errors = operator.reassign(target)

    assert [each.code for each in errors.values()] == ([] if code is None else [code])
    assert operator.metadata.sizes == []


# ---- preferred leaders


def elect(operator: Operator, seconds: float = 0) -> list[ErrorCode]:
    errors = asyncio.run(operator.changes.prefer_leaders(operator.items, seconds))
    return [each.code for each in errors.values()]


def lead(operator: Operator, broker_id: int) -> None:
    state = operator.cluster.state(operator.topic_id)
    operator.cluster.put(
        operator.topic_id,
        0,
        state._replace(
            leader=broker_id,
            leader_epoch=state.leader_epoch + 1,
            broker_epoch=operator.cluster.image.brokers[broker_id].epoch,
            partition_epoch=state.partition_epoch + 1,
            successor=-1,
        ),
    )


def test_an_election_is_answered_when_the_preferred_leader_leads() -> None:
    operator = Operator()
    lead(operator, 2)
    operator.metadata.catch_up()
    assert not operator.changes.is_led_by_preferred(operator.items[0])

    async def scenario() -> dict[Item, RequestError]:
        electing = asyncio.ensure_future(operator.changes.prefer_leaders(operator.items, 5))
        while operator.cluster.state(operator.topic_id).successor != 1:
            await asyncio.sleep(0.001)
            operator.cluster.refresh()
        assert not electing.done()
        lead(operator, 1)
        operator.metadata.catch_up()
        return await electing

    assert asyncio.run(scenario()) == {}
    assert operator.changes.is_led_by_preferred(operator.items[0])


def test_an_election_that_takes_too_long_is_answered_so() -> None:
    operator = Operator()
    lead(operator, 2)
    operator.metadata.catch_up()

    assert elect(operator, 0.05) == [TIMED_OUT]
    assert elect(operator, 0) == [TIMED_OUT]
    assert operator.metadata.sizes == [1], "the second request has found it under way"


def test_a_draining_broker_is_not_preferred() -> None:
    operator = Operator()
    lead(operator, 2)
    operator.cluster.drain(1)
    operator.metadata.catch_up()

    assert elect(operator) == [ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE]


def test_workers_elect_where_a_partition_was_placed() -> None:
    operator = Operator(is_shared=True)
    state = operator.cluster.state(operator.topic_id)
    epoch = operator.cluster.image.brokers[2].epoch
    moved = state._replace(leader=2, broker_epoch=epoch, replicas=(2,), isr=(2,), leader_epoch=1)
    operator.cluster.put(operator.topic_id, 0, moved)
    operator.metadata.catch_up()

    assert elect(operator) == [TIMED_OUT]
    operator.cluster.refresh()
    assert operator.cluster.state(operator.topic_id).successor == 1
    unclean = asyncio.run(operator.changes.elect_unclean(operator.items))
    assert [each.code for each in unclean.values()] == [ErrorCode.ELECTION_NOT_NEEDED]


def test_workers_without_a_leader_are_left_to_the_controller() -> None:
    operator = Operator(is_shared=True)
    operator.cluster.fail(1)
    operator.metadata.catch_up()

    unclean = asyncio.run(operator.changes.elect_unclean(operator.items))

    assert [each.code for each in unclean.values()] == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]


def test_an_unclean_election_needs_a_live_replica() -> None:
    operator = Operator()
    operator.cluster.fail(1)
    operator.cluster.fail(2)
    operator.metadata.catch_up()

    unclean = asyncio.run(operator.changes.elect_unclean(operator.items))

    assert [each.code for each in unclean.values()] == [ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE]
    assert not operator.changes.has_leader(operator.items[0])


class Ends:
    """The ends of replicas, as their brokers answer."""

    def __init__(self, **ends: tuple[int, int]) -> None:
        self.known = {int(name[1:]): End(*end) for name, end in ends.items()}
        self.asked: list[Item] = []

    async def of(self, items: Sequence[Item]) -> dict[Item, dict[int, End]]:
        self.asked += items
        return dict.fromkeys(items, self.known)


def without_isr(operator: Operator) -> None:
    """Let partition 0 have the replicas 1, 2 and 3, of which 1 was in the ISR and has failed."""
    state = operator.cluster.state(operator.topic_id)
    changed = state._replace(replicas=(1, 2, 3), isr=(1,), leader=NO_LEADER, broker_epoch=NO_EPOCH)
    operator.cluster.put(operator.topic_id, 0, changed)
    operator.cluster.fail(1)
    operator.metadata.catch_up()


def test_an_unclean_election_elects_the_replica_with_the_most_records(
    caplog: pytest.LogCaptureFixture,
) -> None:
    operator = Operator(2)
    without_isr(operator)
    ends: Any = Ends(_2=(1, 40), _3=(2, 30))
    operator.changes._ends = ends

    unclean = asyncio.run(operator.changes.elect_unclean(operator.items))

    assert unclean == {}
    operator.cluster.refresh()
    assert operator.cluster.state(operator.topic_id).leader == 3
    assert ends.asked == operator.items  # the leader of the other one has failed, too
    assert operator.cluster.state(operator.topic_id, 1).leader == 2
    (line,) = [each for each in caplog.messages if "unclean election" in each]
    assert "topic=t partition=0 leader=3" in line
    assert "isr_before=(1,)" in line
    assert "{2: (1, 40), 3: (2, 30)}" in line


def test_replicas_that_do_not_answer_are_elected_in_their_order() -> None:
    operator = Operator()
    without_isr(operator)

    assert asyncio.run(operator.changes.elect_unclean(operator.items)) == {}

    operator.cluster.refresh()
    assert operator.cluster.state(operator.topic_id).leader == 2


def test_replicas_are_not_asked_where_there_is_a_leader() -> None:
    operator = Operator()
    ends: Any = Ends()
    operator.changes._ends = ends

    unclean = asyncio.run(operator.changes.elect_unclean(operator.items))

    assert [each.code for each in unclean.values()] == [ErrorCode.ELECTION_NOT_NEEDED]
    assert ends.asked == []
