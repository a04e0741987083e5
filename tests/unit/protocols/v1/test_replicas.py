"""V1's state of followers and roles."""

import pytest

from broker.protocols.v1.errors import RefusedError
from broker.protocols.v1.replicas import LAG_TIMEOUT_MS, Replicas

PLACE = ("topic", 0)
OTHER = ("topic", 1)
NOW_MS = 1_000_000


@pytest.fixture
def replicas() -> Replicas:
    return Replicas(2)


def test_by_default_this_broker_leads_every_partition(replicas: Replicas) -> None:
    assert replicas.in_sync(PLACE, -1, NOW_MS) == [0]
    assert not replicas.is_follower(PLACE)


def test_a_follower_that_is_up_to_date_is_in_sync(replicas: Replicas) -> None:
    replicas.report(PLACE, 2, 5, 5, NOW_MS)
    replicas.report(PLACE, 1, 4, 5, NOW_MS)

    assert replicas.in_sync(PLACE, 5, NOW_MS) == [0, 2]


def test_an_append_makes_followers_out_of_sync(replicas: Replicas) -> None:
    replicas.report(PLACE, 1, 5, 5, NOW_MS)

    assert replicas.in_sync(PLACE, 6, NOW_MS) == [0]


def test_a_reported_offset_is_limited_to_the_log_end(replicas: Replicas) -> None:
    replicas.report(PLACE, 1, 100, 5, NOW_MS)

    assert replicas.in_sync(PLACE, 5, NOW_MS) == [0, 1]
    assert replicas.in_sync(PLACE, 6, NOW_MS) == [0]


def test_a_followers_offset_never_decreases(replicas: Replicas) -> None:
    replicas.report(PLACE, 1, 5, 5, NOW_MS)
    replicas.report(PLACE, 1, -3, 5, NOW_MS)

    assert replicas.in_sync(PLACE, 5, NOW_MS) == [0, 1]


def test_a_silent_follower_is_not_in_sync(replicas: Replicas) -> None:
    replicas.report(PLACE, 1, 5, 5, NOW_MS)

    assert replicas.in_sync(PLACE, 5, NOW_MS + LAG_TIMEOUT_MS) == [0, 1]
    assert replicas.in_sync(PLACE, 5, NOW_MS + LAG_TIMEOUT_MS + 1) == [0]


def test_a_partition_role_can_be_set_and_cleared(replicas: Replicas) -> None:
    replicas.report(PLACE, 1, 5, 5, NOW_MS)

    replicas.set_follower(PLACE, NOW_MS, is_follower=True)
    replicas.set_follower(PLACE, NOW_MS, is_follower=True)
    assert replicas.is_follower(PLACE)
    assert replicas.follower_count == 1
    replicas.set_follower(PLACE, NOW_MS, is_follower=False)

    assert not replicas.is_follower(PLACE)
    assert replicas.follower_count == 0
    assert replicas.in_sync(PLACE, 5, NOW_MS) == [0, 1]


def test_a_recreated_topic_has_no_replica_state(replicas: Replicas) -> None:
    calls: list[int] = []
    replicas.on_roles_changed = calls.append
    replicas.set_follower(PLACE, NOW_MS, is_follower=True)
    replicas.report(OTHER, 1, 5, 5, NOW_MS)

    replicas.forget_topic("topic")
    replicas.forget_topic("nobody")

    assert not replicas.is_follower(PLACE)
    assert replicas.in_sync(OTHER, 5, NOW_MS) == [0]
    assert calls == [1, 0]


def test_the_number_of_remembered_partitions_is_limited(replicas: Replicas) -> None:
    replicas.report(PLACE, 1, 0, 0, NOW_MS)
    replicas.set_follower(OTHER, NOW_MS, is_follower=True)

    with pytest.raises(RefusedError, match="2 partitions"):
        replicas.report(("third", 0), 1, 0, 0, NOW_MS)


def test_silent_followers_are_evicted_and_roles_are_not(replicas: Replicas) -> None:
    replicas.report(PLACE, 1, 0, 0, NOW_MS)
    replicas.set_follower(OTHER, NOW_MS, is_follower=True)

    later_ms = NOW_MS + LAG_TIMEOUT_MS + 1
    replicas.report(("third", 0), 1, 0, 0, later_ms)

    assert replicas.is_follower(OTHER)
    assert replicas.in_sync(("third", 0), 0, later_ms) == [0, 1]
