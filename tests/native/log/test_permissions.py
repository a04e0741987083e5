"""What the native paths know of a principal's permissions: topics, epochs, bounds."""

from random import Random

import pytest

from broker._native.log.permissions import DESCRIBE, READ, WRITE, PermissionEpoch, Permissions
from broker._native.log.topic_table import TopicTable
from broker.model import security_limits


def table(*names: str) -> TopicTable:
    made = TopicTable()
    for number, name in enumerate(names):
        made.add(name, number.to_bytes(16), [])
    return made


def test_nothing_is_known_until_it_is_allowed() -> None:
    known = Permissions(PermissionEpoch(), table("a", "b"))
    assert not known.knows("a", READ)

    known.allow("a", READ)

    assert known.knows("a", READ)
    assert not known.knows("a", WRITE)
    assert not known.knows("a", READ | WRITE)
    assert not known.knows("b", READ)


def test_operations_are_added_to_those_known_before() -> None:
    known = Permissions(PermissionEpoch(), table("a"))

    known.allow("a", READ)
    known.allow("a", DESCRIBE)

    assert known.knows("a", READ | DESCRIBE)
    assert len(known) == 1


def test_everything_is_forgotten_with_the_next_epoch() -> None:
    epoch = PermissionEpoch()
    known, other = Permissions(epoch, table("a")), Permissions(epoch, table("a"))
    known.allow("a", READ)

    epoch.advance()
    assert not known.knows("a", READ)
    other.allow("a", READ)

    assert not known.knows("a", READ)
    assert other.knows("a", READ)


def test_a_topic_of_the_same_name_is_another_one() -> None:
    topics = table("a")
    known = Permissions(PermissionEpoch(), topics)
    known.allow("a", READ)

    topics.remove("a")
    topics.add("a", bytes([9] * 16), [])

    assert not known.knows("a", READ)


def test_a_topic_that_is_not_served_here_is_not_kept() -> None:
    known = Permissions(PermissionEpoch(), table())

    known.allow("a", READ)

    assert len(known) == 0


def test_everything_is_known_to_be_allowed_to_a_super_user() -> None:
    epoch = PermissionEpoch()
    known = Permissions(epoch, table("a"), is_unlimited=True)

    epoch.advance()

    assert known.is_unlimited
    assert known.knows("a", READ | WRITE | DESCRIBE)


def test_topics_are_bounded_and_none_is_mistaken_for_another() -> None:
    names = [str(number) for number in range(security_limits.PERMITTED_TOPICS_MAX + 100)]
    known = Permissions(PermissionEpoch(), table(*names))
    rng, allowed = Random(1), dict.fromkeys(names, 0)
    for name in rng.sample(names, len(names)):
        bits = rng.choice((READ, WRITE, READ | DESCRIBE))
        known.allow(name, bits)
        allowed[name] |= bits
        assert known.knows(name, bits)

    assert 0 < len(known) <= security_limits.PERMITTED_TOPICS_MAX
    found = [
        (name, bits)
        for name in names
        for bits in (READ, WRITE, DESCRIBE)
        if known.knows(name, bits)
    ]
    assert found
    assert all(allowed[name] & bits for name, bits in found)


@pytest.mark.parametrize("argument", [None, 1, b"a"])
def test_a_topic_has_a_name(argument: object) -> None:
    known = Permissions(PermissionEpoch(), table("a"))

    with pytest.raises(TypeError):
        known.allow(argument, READ)  # type: ignore[arg-type]
