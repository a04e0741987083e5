"""From which broker each followed partition is copied, and when that is tried again."""

import pytest

from broker.core.cluster.following_plan import FollowingPlan, Source
from broker.core.cluster.records import NO_EPOCH, NO_LEADER
from broker.core.cluster.slices import complete
from broker.core.cluster.writes import Item
from broker.model.limits import (
    CLUSTER_PARTITIONS_PER_STEP,
    REPLICA_RETRY_MS,
    REPLICA_RETRY_MS_MAX,
)
from tests.unit.core.cluster.clusters import Cluster


class Follower:
    """Broker 3 of a cluster; it follows some partitions of one topic, which others lead."""

    def __init__(self, partitions: int = 1) -> None:
        self.cluster = Cluster(3)
        self.topic_id = self.cluster.create("t", *[(1, 2, 3)] * partitions)
        self.plan = FollowingPlan(self.cluster.image, 3)

    def item(self, partition: int = 0) -> Item:
        return self.topic_id, partition

    def elect(self, leader: int, *, epoch: int = 1) -> None:
        """Let a broker lead partition 0 from an epoch on."""
        state = self.cluster.state(self.topic_id)
        broker_epoch = NO_EPOCH
        if leader != NO_LEADER:
            broker_epoch = self.cluster.image.brokers[leader].epoch
        self.write(state._replace(leader=leader, leader_epoch=epoch, broker_epoch=broker_epoch))

    def write(self, state: object) -> None:
        other = Cluster()
        other.store = self.cluster.store
        other.put(self.topic_id, 0, state)  # type: ignore[arg-type]
        self.refresh()

    def refresh(self) -> None:
        image = self.cluster.image
        for changes in self.cluster.store.changes(image.revision):
            self.plan.image_changed(complete(image.apply(changes)))

    def take(self) -> list[tuple[Item, Source | None]]:
        taken = []
        while self.plan.has_work:
            taken += self.plan.take()
        return taken


@pytest.fixture
def follower() -> Follower:
    return Follower()


def test_a_followed_partition_is_copied_from_its_leader(follower: Follower) -> None:
    follower.plan.followed(follower.item())

    assert follower.take() == [(follower.item(), Source(1, 0))]
    assert follower.plan.source(follower.item()) == Source(1, 0)
    assert follower.take() == []


def test_another_leader_or_epoch_is_another_source(follower: Follower) -> None:
    follower.plan.followed(follower.item())
    follower.take()

    follower.elect(2, epoch=1)
    assert follower.take() == [(follower.item(), Source(2, 1))]
    follower.elect(2, epoch=2)
    assert follower.take() == [(follower.item(), Source(2, 2))]


def test_a_change_of_the_replicas_in_sync_changes_no_source(follower: Follower) -> None:
    follower.plan.followed(follower.item())
    follower.take()

    state = follower.cluster.state(follower.topic_id)
    follower.write(state._replace(isr=(1,), partition_epoch=1))

    assert follower.take() == []


@pytest.mark.parametrize("leader", [NO_LEADER, 3])
def test_a_partition_that_nobody_leads_or_this_broker_is_not_copied(
    follower: Follower, leader: int
) -> None:
    follower.plan.followed(follower.item())
    follower.take()

    follower.elect(leader)

    assert follower.take() == [(follower.item(), None)]


def test_a_leader_that_has_gone_is_no_source_until_it_is_elected_again(
    follower: Follower,
) -> None:
    follower.plan.followed(follower.item())
    follower.take()

    follower.cluster.store.expire(follower.cluster.leases.pop(1))
    follower.refresh()
    assert follower.take() == [(follower.item(), None)]
    follower.cluster.register(1)
    follower.refresh()
    assert follower.take() == []
    follower.elect(1)
    assert follower.take() == [(follower.item(), Source(1, 1))]


def test_a_log_that_is_followed_again_is_copied_anew(follower: Follower) -> None:
    follower.plan.followed(follower.item())
    follower.take()

    follower.plan.followed(follower.item())

    assert follower.take() == [(follower.item(), Source(1, 0))]


def test_an_unfollowed_partition_is_forgotten(follower: Follower) -> None:
    follower.plan.followed(follower.item())
    follower.take()

    follower.plan.unfollowed(follower.item())
    follower.plan.failed(follower.item(), 0)
    follower.plan.hold(follower.item())
    follower.plan.release(follower.item())
    follower.elect(2)

    assert follower.take() == []
    assert follower.plan.source(follower.item()) is None
    assert follower.plan.due_ms is None


def test_a_held_partition_that_fails_is_copied_again_in_a_while(follower: Follower) -> None:
    follower.plan.followed(follower.item())
    follower.take()

    follower.plan.hold(follower.item())
    follower.plan.failed(follower.item(), 0)

    assert follower.take() == []
    follower.plan.tick(REPLICA_RETRY_MS)
    assert follower.take() == [(follower.item(), Source(1, 0))]


def test_a_held_partition_is_not_copied_before_its_release(follower: Follower) -> None:
    follower.plan.followed(follower.item())
    follower.take()

    follower.plan.hold(follower.item())
    follower.elect(2)
    assert follower.take() == []
    follower.plan.release(follower.item())

    assert follower.take() == [(follower.item(), Source(2, 1))]


def test_the_pauses_after_failures_double_up_to_a_limit(follower: Follower) -> None:
    follower.plan.followed(follower.item())
    follower.take()
    pauses = []
    now_ms = 0
    for _ in range(5):
        follower.plan.failed(follower.item(), now_ms)
        assert follower.take() == []
        due_ms = follower.plan.due_ms
        assert due_ms is not None
        follower.plan.tick(due_ms - 1)
        assert follower.take() == []
        follower.plan.tick(due_ms)
        assert follower.take() == [(follower.item(), Source(1, 0))]
        pauses.append(due_ms - now_ms)
        now_ms = due_ms

    assert pauses[:3] == [REPLICA_RETRY_MS, 2 * REPLICA_RETRY_MS, 4 * REPLICA_RETRY_MS]
    assert pauses[3:] == [REPLICA_RETRY_MS_MAX] * 2


def test_a_failure_after_a_long_time_is_a_first_one(follower: Follower) -> None:
    follower.plan.followed(follower.item())
    follower.take()
    for now_ms in (0, 1_000, 2_000):
        follower.plan.failed(follower.item(), now_ms)
        follower.plan.tick(now_ms + REPLICA_RETRY_MS_MAX)
        follower.take()

    follower.plan.failed(follower.item(), 100_000)

    assert follower.plan.due_ms == 100_000 + REPLICA_RETRY_MS


def test_a_change_of_the_source_ends_a_pause_at_once(follower: Follower) -> None:
    follower.plan.followed(follower.item())
    follower.take()
    follower.plan.failed(follower.item(), 0)

    follower.elect(2)

    assert follower.take() == [(follower.item(), Source(2, 1))]
    follower.plan.tick(10_000)  # of the pause that has ended
    assert follower.take() == []


def test_many_changes_are_taken_in_slices() -> None:
    follower = Follower(partitions=2 * CLUSTER_PARTITIONS_PER_STEP + 1)
    for partition in range(2 * CLUSTER_PARTITIONS_PER_STEP + 1):
        follower.plan.followed(follower.item(partition))

    sizes = []
    while follower.plan.has_work:
        sizes.append(len(follower.plan.take()))

    assert sizes == [CLUSTER_PARTITIONS_PER_STEP] * 2 + [1]


def test_a_partition_of_no_known_topic_is_not_copied(follower: Follower) -> None:
    item = bytes(16), 7
    follower.plan.followed(item)

    assert follower.take() == []


def test_no_step_is_for_more_partitions_than_fit_into_it() -> None:
    count = 3 * CLUSTER_PARTITIONS_PER_STEP
    follower = Follower(count)
    for each in range(count):
        follower.plan.followed(follower.item(each))
    follower.take()

    for each in range(count):
        follower.plan.failed(follower.item(each), 0)
    follower.plan.tick(REPLICA_RETRY_MS)

    assert follower.plan.due_ms == REPLICA_RETRY_MS  # there are more
    taken = follower.take()
    assert len(taken) == CLUSTER_PARTITIONS_PER_STEP
    for _ in range(2):
        follower.plan.tick(REPLICA_RETRY_MS)
        taken += follower.take()
    assert len(taken) == count
    assert follower.plan.due_ms is None
