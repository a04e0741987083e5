"""The roles of partitions that V1's clients set."""

import pytest

from broker.protocols.v1.errors import RefusedError
from broker.protocols.v1.roles import Roles

PLACE = ("topic", 0)
OTHER = ("topic", 1)


@pytest.fixture
def roles() -> Roles:
    return Roles(2)


def test_by_default_this_broker_leads_every_partition(roles: Roles) -> None:
    assert not roles.is_follower(PLACE)


def test_a_role_can_be_set_and_cleared(roles: Roles) -> None:
    calls: list[int] = []
    roles.on_changed = calls.append

    roles.set_follower(PLACE, is_follower=True)
    roles.set_follower(PLACE, is_follower=True)
    assert roles.is_follower(PLACE)
    roles.set_follower(PLACE, is_follower=False)

    assert not roles.is_follower(PLACE)
    assert calls == [1, 0]


def test_a_recreated_topic_has_no_roles(roles: Roles) -> None:
    calls: list[int] = []
    roles.set_follower(PLACE, is_follower=True)
    roles.set_follower(("another", 0), is_follower=True)
    roles.on_changed = calls.append

    roles.forget_topic("topic")
    roles.forget_topic("nobody")

    assert not roles.is_follower(PLACE)
    assert roles.is_follower(("another", 0))
    assert calls == [1]


def test_the_number_of_followers_is_limited(roles: Roles) -> None:
    roles.set_follower(PLACE, is_follower=True)
    roles.set_follower(OTHER, is_follower=True)

    with pytest.raises(RefusedError, match="2 partitions"):
        roles.set_follower(("third", 0), is_follower=True)
    roles.set_follower(OTHER, is_follower=False)
    roles.set_follower(("third", 0), is_follower=True)
