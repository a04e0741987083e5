"""The vote for a protocol (kafka.md 2.6)."""

import pytest

from broker.core.groups.commands import GroupProtocol
from broker.core.groups.joining import choose_protocol


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
