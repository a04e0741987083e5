"""The assignors of V1's original server."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.core.groups.assigned.assignors import assign
from broker.core.groups.commands.assigned import Assignor

ROUND_ROBIN, RANGE = Assignor.ROUND_ROBIN, Assignor.RANGE


@pytest.mark.parametrize(
    ("assignor", "members", "partitions", "expected"),
    [
        (ROUND_ROBIN, ["c1", "c2"], 3, {"c1": (0, 2), "c2": (1,)}),
        (RANGE, ["c3", "c4"], 5, {"c3": (0, 1, 2), "c4": (3, 4)}),
        (RANGE, ["a", "b", "c"], 2, {"a": (0,), "b": (1,), "c": ()}),
        (ROUND_ROBIN, ["a", "b"], 1, {"a": (0,), "b": ()}),
        (ROUND_ROBIN, [], 3, {}),
        (RANGE, [], 3, {}),
    ],
)
def test_the_examples_of_the_specification_are_assigned_as_specified(
    assignor: Assignor, members: list[str], partitions: int, expected: dict[str, tuple[int, ...]]
) -> None:
    assert assign(assignor, members, partitions) == expected


def test_members_are_ordered_by_their_bytes() -> None:
    # In UTF-16, and so in Java, the second would sort before the first.
    members = ["\U0001f99c", "\ufb01", "c10", "c2", "C"]

    assert [each for each, _ in sorted(assign(RANGE, members, 5).items(), key=lambda m: m[1])] == [
        "C",
        "c10",
        "c2",
        "\ufb01",
        "\U0001f99c",
    ]


@given(st.sampled_from(Assignor), st.sets(st.text(max_size=3)), st.integers(0, 40))
def test_every_partition_has_one_owner_and_shares_differ_by_at_most_one(
    assignor: Assignor, members: set[str], partitions: int
) -> None:
    shares = assign(assignor, members, partitions)

    assert shares.keys() == members
    owned = sorted(number for share in shares.values() for number in share)
    assert owned == (list(range(partitions)) if members else [])
    sizes = [len(share) for share in shares.values()]
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
