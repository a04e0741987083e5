"""Which quota applies to a client, whom the client shares it with, and which match a filter."""

import itertools

import pytest

from broker.core.security.quotas.entities import DEFAULT, Entity
from broker.core.security.quotas.table import Limit, Match, QuotaTable, matches

KEY = "producer_byte_rate"
# The most specific first, with whom user u with client id c shares it.
PRECEDENCE = [
    (Entity("u", "c"), ("u", "c")),
    (Entity("u", DEFAULT), ("u", "c")),
    (Entity("u"), ("u", None)),
    (Entity(DEFAULT, "c"), ("u", "c")),
    (Entity(DEFAULT, DEFAULT), ("u", "c")),
    (Entity(DEFAULT), ("u", None)),
    (Entity(None, "c"), (None, "c")),
    (Entity(None, DEFAULT), (None, "c")),
]


@pytest.mark.parametrize("present", list(itertools.product([False, True], repeat=len(PRECEDENCE))))
def test_the_most_specific_quota_applies(present: tuple[bool, ...]) -> None:
    table = QuotaTable()
    wanted = None
    for place, ((entity, owner), is_present) in enumerate(zip(PRECEDENCE, present, strict=True)):
        if is_present:
            table.set(entity, {KEY: place + 1.0})
            wanted = wanted or Limit(*owner, place + 1.0)

    assert table.limit_of_client(KEY, "u", "c") == wanted


def test_a_more_specific_entity_without_that_quota_does_not_hide_a_general_one() -> None:
    table = QuotaTable()
    table.set(Entity("u", "c"), {"consumer_byte_rate": 1.0})
    table.set(Entity("u"), {KEY: 2.0})

    assert table.limit_of_client(KEY, "u", "c") == Limit("u", None, 2.0)


def test_the_default_of_addresses_is_for_those_without_their_own() -> None:
    table = QuotaTable()
    rate = "connection_creation_rate"
    assert table.limit_of_address(rate, "10.0.0.1") is None
    table.set(Entity(ip=DEFAULT), {rate: 5.0})
    table.set(Entity(ip="10.0.0.1"), {rate: 7.0})

    assert table.limit_of_address(rate, "10.0.0.1") == 7.0
    assert table.limit_of_address(rate, "10.0.0.2") == 5.0
    assert table.limit_of_client(rate, "10.0.0.1", "10.0.0.1") is None


def test_an_entity_without_quotas_is_forgotten() -> None:
    table = QuotaTable()
    table.set(Entity("u"), {KEY: 2.0})
    table.set(Entity("u"), {})

    assert len(table) == 0
    assert table.limit_of_client(KEY, "u", "c") is None


USER, CLIENT, ANY_USER = Match("user", "u"), Match("client-id", "c"), Match("user", None)


@pytest.mark.parametrize(
    ("wanted", "strict", "loose"),
    [
        ([], [], ["u", "u&c", "U", "c", "ip"]),
        ([USER], ["u"], ["u", "u&c"]),
        ([Match("user", DEFAULT)], ["U"], ["U"]),
        ([ANY_USER], ["u", "U"], ["u", "u&c", "U"]),
        ([USER, CLIENT], ["u&c"], ["u&c"]),
        ([Match("ip", None)], ["ip"], ["ip"]),
        ([Match("user", "other")], [], []),
    ],
)
def test_a_strict_filter_matches_exactly_its_types(
    wanted: list[Match], strict: list[str], loose: list[str]
) -> None:
    known = {
        "u": Entity("u"),
        "u&c": Entity("u", "c"),
        "U": Entity(DEFAULT),
        "c": Entity(None, "c"),
        "ip": Entity(ip="10.0.0.1"),
    }
    for is_strict, names in ((True, strict), (False, loose)):
        found = [name for name, each in known.items() if matches(each, wanted, is_strict=is_strict)]

        assert found == names
