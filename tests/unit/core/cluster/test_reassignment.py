"""Reassignments: their steps, by whom they are made, and what is refused (KIP-455)."""

import pytest

from broker.core.cluster import eligibility, reassignment
from broker.core.cluster.records import PartitionState, Replicas
from broker.core.cluster.topic_settings import ReplicaSettings
from broker.model.errors import ErrorCode, RequestError
from tests.unit.core.cluster.clusters import Cluster

SETTINGS = ReplicaSettings()


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(5)


def begin(cluster: Cluster, topic_id: bytes, *target: int) -> PartitionState:
    assert cluster.commit(reassignment.begin(cluster.image, topic_id, 0, target)) is not None
    return cluster.state(topic_id)


def advanced(cluster: Cluster, topic_id: bytes) -> PartitionState | None:
    found = eligibility.known(cluster.image, topic_id, 0)
    assert found is not None
    return reassignment.advanced(found, SETTINGS)


def add_to_isr(cluster: Cluster, topic_id: bytes, *isr: int) -> None:
    state = cluster.state(topic_id)
    cluster.put(topic_id, 0, state._replace(isr=isr, partition_epoch=state.partition_epoch + 1))


@pytest.mark.parametrize(
    ("target", "replicas", "adding", "removing"),
    [
        ((4, 2, 5), (4, 2, 5, 1, 3), (4, 5), (1, 3)),
        ((1, 2, 3, 4), (1, 2, 3, 4), (4,), ()),
        ((2,), (2, 1, 3), (), (1, 3)),
        ((3, 2, 1), (3, 2, 1), (), ()),
        ((4, 5), (4, 5, 1, 2, 3), (4, 5), (1, 2, 3)),
    ],
)
def test_a_reassignment_keeps_all_replicas_until_it_is_completed(
    cluster: Cluster, target: Replicas, replicas: Replicas, adding: Replicas, removing: Replicas
) -> None:
    topic_id = cluster.create("t", (1, 2, 3))

    state = begin(cluster, topic_id, *target)

    assert (state.replicas, state.adding, state.removing) == (replicas, adding, removing)
    assert (state.leader, set(state.isr), state.partition_epoch) == (1, {1, 2, 3}, 1)


def test_a_reassignment_waits_until_all_added_replicas_are_in_the_isr(cluster: Cluster) -> None:
    topic_id = cluster.create("t", (1, 2, 3))
    begin(cluster, topic_id, 1, 4, 5)
    assert advanced(cluster, topic_id) is None

    add_to_isr(cluster, topic_id, 1, 2, 3, 4)
    assert advanced(cluster, topic_id) is None
    add_to_isr(cluster, topic_id, 1, 2, 3, 4, 5)

    epoch = cluster.image.brokers[1].epoch
    assert advanced(cluster, topic_id) == PartitionState(1, 1, epoch, (1, 4, 5), (1, 4, 5), 4)


def test_a_leader_that_is_removed_hands_over_first(cluster: Cluster) -> None:
    topic_id = cluster.create("t", (1, 2))
    begin(cluster, topic_id, 3, 2)
    add_to_isr(cluster, topic_id, 1, 2, 3)

    named = advanced(cluster, topic_id)

    assert named is not None
    assert named == cluster.state(topic_id)._replace(successor=3, partition_epoch=3)
    cluster.put(topic_id, 0, named)
    assert advanced(cluster, topic_id) is None  # it waits for the leader
    epoch = cluster.image.brokers[3].epoch
    led = named._replace(
        leader=3, leader_epoch=1, broker_epoch=epoch, successor=-1, partition_epoch=4
    )
    cluster.put(topic_id, 0, led)
    assert advanced(cluster, topic_id) == PartitionState(3, 2, epoch, (3, 2), (3, 2), 5)


def test_the_leader_epoch_rises_when_replicas_are_removed_and_not_otherwise(
    cluster: Cluster,
) -> None:
    topic_id = cluster.create("t", (1, 2))
    begin(cluster, topic_id, 1, 2, 3)
    add_to_isr(cluster, topic_id, 1, 2, 3)
    grown = advanced(cluster, topic_id)
    assert grown is not None
    assert grown.leader_epoch == 0
    cluster.put(topic_id, 0, grown)

    assert begin(cluster, topic_id, 1, 2).leader_epoch == 0
    removed = advanced(cluster, topic_id)

    assert removed is not None
    assert (removed.leader, removed.leader_epoch, removed.replicas) == (1, 1, (1, 2))
    assert removed.broker_epoch == grown.broker_epoch


def test_replicas_are_not_removed_while_the_leader_hands_over(cluster: Cluster) -> None:
    topic_id = cluster.create("t", (1, 2, 3))
    state = begin(cluster, topic_id, 1, 2)
    cluster.put(topic_id, 0, state._replace(successor=2, partition_epoch=2))
    assert advanced(cluster, topic_id) is None

    cluster.put(topic_id, 0, state._replace(partition_epoch=3))

    completed = advanced(cluster, topic_id)
    assert completed is not None
    assert (completed.replicas, completed.leader_epoch) == ((1, 2), 1)


def test_a_reassignment_waits_for_a_successor_that_runs_and_for_a_leader(cluster: Cluster) -> None:
    topic_id = cluster.create("t", (1, 2))
    begin(cluster, topic_id, 3)
    add_to_isr(cluster, topic_id, 1, 2, 3)
    cluster.drain(3)
    assert advanced(cluster, topic_id) is None

    cluster.restart(3)
    assert advanced(cluster, topic_id) is not None
    cluster.fail(1)

    assert advanced(cluster, topic_id) is None


def test_an_added_replica_that_was_emptied_is_not_in_the_isr_any_more(cluster: Cluster) -> None:
    topic_id = cluster.create("t", (1, 2))
    begin(cluster, topic_id, 1, 3)
    add_to_isr(cluster, topic_id, 1, 2, 3)
    cluster.empty(3)
    cluster.restart(3)

    assert advanced(cluster, topic_id) is None


def test_another_target_replaces_the_first_one(cluster: Cluster) -> None:
    topic_id = cluster.create("t", (1, 2))
    begin(cluster, topic_id, 3, 4)

    state = begin(cluster, topic_id, 4, 5, 2)

    assert state.replicas == (4, 5, 2, 3, 1)
    assert (set(state.adding), set(state.removing)) == ({4, 5}, {1, 3})


def test_a_reassignment_is_cancelled_by_one_to_what_was_before(cluster: Cluster) -> None:
    topic_id = cluster.create("t", (1, 2))
    begin(cluster, topic_id, 3, 2)
    add_to_isr(cluster, topic_id, 1, 2, 3)

    assert cluster.commit(reassignment.cancel(cluster.image, topic_id, 0)) is not None

    state = cluster.state(topic_id)
    assert (state.replicas, state.adding, state.removing) == ((2, 1, 3), (), (3,))
    completed = advanced(cluster, topic_id)
    assert completed is not None
    assert (completed.replicas, completed.isr, completed.removing) == ((2, 1), (2, 1), ())


def test_a_reassignment_begins_without_members_that_were_emptied(cluster: Cluster) -> None:
    topic_id = cluster.create("t", (1, 2))
    cluster.empty(2)
    cluster.restart(2)

    assert begin(cluster, topic_id, 3, 2).isr == (1,)

    cluster.empty(1)
    cluster.restart(1)
    state = begin(cluster, topic_id, 1, 2)
    assert (state.leader, state.leader_epoch, state.isr) == (-1, 1, ())


def error_of(cluster: Cluster, topic_id: bytes, partition: int, target: Replicas) -> ErrorCode:
    try:
        if target:
            reassignment.begin(cluster.image, topic_id, partition, target)
        else:
            reassignment.cancel(cluster.image, topic_id, partition)
    except RequestError as error:
        return error.code
    raise AssertionError("it was not refused")


def test_what_cannot_be_is_refused(cluster: Cluster) -> None:
    topic_id = cluster.create("t", (1, 2))
    wrong = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    assert error_of(cluster, topic_id, 0, (1, 6)) is wrong
    assert error_of(cluster, topic_id, 0, (1, 1)) is wrong
    assert error_of(cluster, topic_id, 1, (1,)) is unknown
    assert error_of(cluster, topic_id, -1, (1,)) is unknown
    assert error_of(cluster, b"?" * 16, 0, (1,)) is unknown
    assert error_of(cluster, topic_id, 0, ()) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert error_of(cluster, topic_id, 1, ()) is unknown
    with pytest.raises(RequestError):
        reassignment.begin(cluster.image, topic_id, 0, ())


def test_a_reassignment_that_was_decided_from_an_old_image_is_not_made(cluster: Cluster) -> None:
    topic_id = cluster.create("t", (1, 2))
    old = reassignment.begin(cluster.image, topic_id, 0, (2, 3))
    begin(cluster, topic_id, 1, 4)
    assert cluster.commit(old) is None

    late = reassignment.begin(cluster.image, topic_id, 0, (1, 2, 5))
    cluster.restart(5)

    assert cluster.commit(late) is None
