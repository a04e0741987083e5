"""The selection of a protocol, and the wait for assignments."""

import pytest

from broker.core.groups.classic.rebalance import PendingSyncs, choose_protocol
from broker.core.groups.commands.classic import GroupProtocol
from broker.core.groups.records.classic import Member


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
def test_the_protocol_with_most_votes_wins_and_ties_go_to_the_first_members_choice(
    ballots: list[str], chosen: str
) -> None:
    assert choose_protocol(voter(ballot) for ballot in ballots) == chosen


def member(name: str, rebalance_timeout_ms: int) -> Member:
    return Member(name, None, "c", "", rebalance_timeout_ms, 10_000)


def test_members_that_have_not_synced_by_the_longest_rebalance_timeout_are_reported_once() -> None:
    syncs = PendingSyncs()
    members = {"a": member("a", 100), "b": member("b", 300), "c": member("c", 200)}
    syncs.start(members, 1_000)
    syncs.mark_received("b")

    assert syncs.expired(members, 1_299) == []
    assert syncs.expired(members, 1_300) == ["a", "c"]
    assert syncs.expired(members, 1_301) == []


def test_a_second_sync_of_a_member_replaces_its_waiting_one() -> None:
    syncs = PendingSyncs()

    earlier = [syncs.add_waiting("a", "first"), syncs.add_waiting("a", "second")]

    assert earlier == [None, "first"]
    assert syncs.waiting == {"a": "second"}


def test_a_cancel_returns_the_waiting_syncs_and_expects_no_more() -> None:
    syncs = PendingSyncs()
    syncs.start({"a": member("a", 100), "b": member("b", 100)}, 1_000)
    syncs.add_waiting("a", "asks")

    assert syncs.cancel() == ["asks"]
    assert (syncs.waiting, syncs.deadline_ms, syncs.expired(["a", "b"], 9_999)) == ({}, None, [])
