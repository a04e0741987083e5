"""The vote for a protocol, and the wait for assignments (kafka.md 2.6)."""

import pytest

from broker.core.groups.commands import GroupProtocol
from broker.core.groups.joining import Syncs, choose_protocol
from broker.core.groups.records import Member


def voter(names: str) -> tuple[GroupProtocol, ...]:
    return tuple(GroupProtocol(name, b"") for name in names.split())


@pytest.mark.parametrize(
    ("ballots", "chosen"),
    [
        (["range sticky"], "range"),
        (["range sticky", "sticky range", "sticky range"], "sticky"),
        (["range sticky", "sticky range"], "range"),
        (["sticky range", "range sticky"], "sticky"),
        (["range sticky", "sticky"], "sticky"),
        (["a b c", "c b", "b c"], "b"),
    ],
)
def test_each_votes_for_the_first_that_all_support_and_ties_go_to_the_first_member(
    ballots: list[str], chosen: str
) -> None:
    assert choose_protocol(voter(ballot) for ballot in ballots) == chosen


def member(name: str, rebalance_timeout_ms: int) -> Member:
    return Member(name, None, "c", "", rebalance_timeout_ms, 10_000)


def test_who_has_not_asked_when_the_most_patient_member_gives_up_is_late_once() -> None:
    syncs = Syncs()
    members = {"a": member("a", 100), "b": member("b", 300), "c": member("c", 200)}
    syncs.expect(members, 1_000)
    syncs.has_asked("b")

    assert syncs.late(members, 1_299) == []
    assert syncs.late(members, 1_300) == ["a", "c"]
    assert syncs.late(members, 1_301) == []


def test_a_member_that_asks_again_waits_with_its_last_request() -> None:
    syncs = Syncs()

    earlier = [syncs.park("a", "first"), syncs.park("a", "second")]

    assert earlier == [None, "first"]
    assert syncs.waiting == {"a": "second"}


def test_an_end_leaves_nobody_to_wait_or_to_wait_for() -> None:
    syncs = Syncs()
    syncs.expect({"a": member("a", 100), "b": member("b", 100)}, 1_000)
    syncs.park("a", "asks")

    assert syncs.end() == ["asks"]
    assert (syncs.waiting, syncs.deadline_ms, syncs.late(["a", "b"], 9_999)) == ({}, None, [])
