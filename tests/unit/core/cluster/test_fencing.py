"""When the process of another broker has died, and what deletes its registration."""

import pytest

from broker.core.cluster import fencing
from broker.core.cluster.fencing import Connect, Fence, Wait, Watch
from broker.core.cluster.image import ClusterImage
from broker.core.cluster.records import CONTROLLER, broker_key
from broker.model.limits import (
    CLUSTER_RETRY_MS,
    PROBE_AGAIN_MS,
    PROBE_GAP_MS,
    PROBE_REFUSALS,
    PROBED_BROKERS_MAX,
)
from tests.unit.core.cluster.clusters import Cluster, keys

START_MS = 5_000
LATER_MS = START_MS + PROBE_AGAIN_MS


@pytest.fixture
def watch() -> Watch:
    return Watch(START_MS)


@pytest.fixture
def doubted(watch: Watch) -> Watch:
    """A watch whose connection has ended after it has lasted for a while."""
    watch.connected()
    watch.doubted(LATER_MS)
    return watch


def refuse(watch: Watch, now_ms: int, times: int) -> int:
    """Refuse connections as soon as each of them is made; return the time."""
    for _ in range(times):
        action = watch.action(now_ms)
        if isinstance(action, Wait):
            assert action.until_ms is not None
            now_ms = action.until_ms
        assert watch.action(now_ms) == Connect()
        watch.refused(now_ms)
    return now_ms


def test_a_broker_is_connected_to_at_once_and_the_connection_is_kept(watch: Watch) -> None:
    assert watch.action(START_MS) == Connect()

    watch.connected()

    assert watch.action(START_MS) == watch.action(START_MS + 10**6) == Wait(None)


def test_a_broker_whose_host_refuses_connections_after_one_has_ended_is_fenced(
    doubted: Watch,
) -> None:
    now_ms = refuse(doubted, LATER_MS, PROBE_REFUSALS)

    assert doubted.action(now_ms) == Fence()
    assert now_ms - LATER_MS == (PROBE_REFUSALS - 1) * PROBE_GAP_MS <= 50


def test_a_broker_that_has_never_accepted_a_connection_is_never_fenced(watch: Watch) -> None:
    now_ms = START_MS
    for _ in range(10 * PROBE_REFUSALS):
        assert watch.action(now_ms) == Connect()
        watch.refused(now_ms)
        assert watch.action(now_ms) == Wait(now_ms + PROBE_AGAIN_MS)
        now_ms += PROBE_AGAIN_MS


@pytest.mark.parametrize("refusals", range(PROBE_REFUSALS))
def test_a_connection_that_is_made_ends_the_suspicion(doubted: Watch, refusals: int) -> None:
    now_ms = refuse(doubted, LATER_MS, refusals) + PROBE_GAP_MS

    doubted.connected()

    assert doubted.action(now_ms) == Wait(None)
    doubted.doubted(now_ms + PROBE_AGAIN_MS)
    refuse(doubted, now_ms + PROBE_AGAIN_MS, PROBE_REFUSALS - 1)
    assert not isinstance(doubted.action(10**6), Fence)


@pytest.mark.parametrize("refusals", range(PROBE_REFUSALS))
def test_another_failure_than_a_refusal_proves_nothing(doubted: Watch, refusals: int) -> None:
    now_ms = refuse(doubted, LATER_MS, refusals) + PROBE_GAP_MS

    doubted.failed(now_ms)

    assert doubted.action(now_ms) == Wait(now_ms + PROBE_AGAIN_MS)
    later_ms = refuse(doubted, now_ms, PROBE_REFUSALS - 1)
    assert not isinstance(doubted.action(later_ms + PROBE_GAP_MS), Fence)
    refuse(doubted, later_ms, 1)
    assert doubted.action(10**6) == Fence()


def test_a_broker_that_closes_each_connection_at_once_is_asked_less_and_less_often(
    watch: Watch,
) -> None:
    now_ms = START_MS
    pauses: list[int] = []
    for _ in range(10):
        watch.connected()
        watch.doubted(now_ms)
        action = watch.action(now_ms)
        until_ms = action.until_ms if isinstance(action, Wait) else now_ms
        assert until_ms is not None
        pauses.append(until_ms - now_ms)
        now_ms += pauses[-1]
        assert watch.action(now_ms) == Connect()

    assert pauses[:3] == [0, PROBE_GAP_MS, 2 * PROBE_GAP_MS]
    assert pauses[-1] == PROBE_AGAIN_MS


def test_a_process_that_accepts_a_connection_while_it_dies_is_fenced_at_once(watch: Watch) -> None:
    watch.connected()
    watch.doubted(START_MS)
    watch.connected()

    watch.doubted(START_MS + 1)
    now_ms = refuse(watch, START_MS + 1, PROBE_REFUSALS)

    assert watch.action(now_ms) == Fence()
    assert now_ms - START_MS <= 100


def test_a_broker_that_dies_just_after_it_was_connected_to_is_asked_at_once(watch: Watch) -> None:
    watch.connected()

    watch.doubted(START_MS + 1)

    assert watch.action(START_MS + 1) == Connect()


def test_doubts_before_a_connection_and_during_the_probe_change_nothing(watch: Watch) -> None:
    watch.doubted(START_MS)
    watch.refused(START_MS)
    watch.doubted(START_MS)
    assert watch.action(START_MS) == Wait(START_MS + PROBE_AGAIN_MS)
    watch.connected()
    watch.doubted(LATER_MS)
    now_ms = refuse(watch, LATER_MS, PROBE_REFUSALS - 1)

    watch.doubted(now_ms)

    assert watch.action(now_ms) == Wait(now_ms + PROBE_GAP_MS)
    refuse(watch, now_ms, 1)
    assert watch.action(now_ms + PROBE_GAP_MS) == Fence()


def test_a_registration_that_was_not_deleted_is_probed_anew(doubted: Watch) -> None:
    now_ms = refuse(doubted, LATER_MS, PROBE_REFUSALS)

    doubted.not_fenced(now_ms)

    assert doubted.action(now_ms) == Wait(now_ms + CLUSTER_RETRY_MS)
    refuse(doubted, now_ms, PROBE_REFUSALS - 1)
    assert not isinstance(doubted.action(10**6), Fence)


# ---- whom a broker watches


def circle(image: ClusterImage, count: int) -> dict[int, list[int]]:
    return {each: fencing.watched(image, each) for each in range(1, count + 1)}


def test_each_broker_watches_all_others_of_a_small_cluster() -> None:
    cluster = Cluster(3)
    cluster.create("t", (1, 2, 3))

    assert circle(cluster.image, 3) == {1: [2, 3], 2: [3, 1], 3: [1, 2]}


def test_each_broker_of_a_large_cluster_is_watched_by_a_few_others() -> None:
    count = PROBED_BROKERS_MAX + 4
    cluster = Cluster(count)
    cluster.create("t", *((each, each % count + 1) for each in range(1, count + 1)))

    found = circle(cluster.image, count)

    assert all(len(each) == PROBED_BROKERS_MAX for each in found.values())
    times = [sum(each in others for others in found.values()) for each in found]
    assert times == [PROBED_BROKERS_MAX] * count
    assert found[count] == list(range(1, PROBED_BROKERS_MAX + 1))


def test_only_brokers_whose_partitions_others_have_too_are_watched() -> None:
    cluster = Cluster(4)
    cluster.create("t", (1, 2), (3,))

    assert circle(cluster.image, 4) == {1: [2], 2: [1], 3: [1, 2], 4: [1, 2]}


def test_a_draining_broker_is_not_watched() -> None:
    cluster = Cluster(3)
    cluster.create("t", (1, 2, 3))
    cluster.drain(2)

    assert circle(cluster.image, 3) == {1: [3], 2: [3, 1], 3: [1]}


# ---- the transaction


class Three(Cluster):
    """Three brokers with copies of one partition; 3 is the controller, 2 has died."""

    def __init__(self) -> None:
        super().__init__(3)
        self.create("t", (1, 2, 3))
        self.office = self.take_office(3)
        self.epochs = {each: broker.epoch for each, broker in self.image.brokers.items()}


def test_a_registration_is_deleted_with_the_guards_of_both_brokers() -> None:
    three = Three()

    transaction = fencing.fence(three.image, (1, three.epochs[1]), 2, three.epochs[2])

    assert transaction is not None
    assert [each.key for each in transaction.guards] == [broker_key(1), broker_key(2)]
    assert keys(transaction.operations) == [broker_key(2)]
    assert three.commit(transaction) is not None
    assert sorted(three.image.brokers) == [1, 3]


def test_a_controller_that_has_died_loses_its_office_at_once() -> None:
    three = Three()

    transaction = fencing.fence(three.image, (1, three.epochs[1]), 3, three.epochs[3])

    assert transaction is not None
    assert keys(transaction.operations) == [broker_key(3), CONTROLLER]
    assert three.commit(transaction) is not None
    assert three.image.controller is None


def test_a_controller_that_was_elected_meanwhile_keeps_its_office() -> None:
    three = Three()
    transaction = fencing.fence(three.image, (1, three.epochs[1]), 3, three.epochs[3])
    three.restart(3)
    three.take_office(1)

    assert transaction is not None
    assert three.commit(transaction) is None
    assert three.image.controller is not None


def test_a_broker_that_has_registered_anew_is_not_fenced() -> None:
    three = Three()
    transaction = fencing.fence(three.image, (1, three.epochs[1]), 2, three.epochs[2])
    three.restart(2)

    assert transaction is not None
    assert three.commit(transaction) is None
    assert fencing.fence(three.image, (1, three.epochs[1]), 2, three.epochs[2]) is None


def test_who_is_not_registered_fences_nobody() -> None:
    three = Three()
    transaction = fencing.fence(three.image, (1, three.epochs[1]), 2, three.epochs[2])
    three.fail(1)

    assert transaction is not None
    assert three.commit(transaction) is None
    assert fencing.fence(three.image, (1, three.epochs[1]), 2, three.epochs[2]) is None


def test_a_broker_that_drains_meanwhile_is_left_alone() -> None:
    three = Three()
    three.drain(2)

    assert fencing.fence(three.image, (1, three.epochs[1]), 2, three.epochs[2]) is None
