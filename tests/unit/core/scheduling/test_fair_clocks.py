"""Fair clocks: the order of owners that take different amounts."""

from hypothesis import given
from hypothesis import strategies as st

from broker.core.scheduling.fair_clocks import FairClocks

OWNERS = 5
MANY = 5_000


@given(st.lists(st.integers(1, 50), min_size=OWNERS, max_size=OWNERS))
def test_owners_that_always_wait_get_equal_shares(costs: list[int]) -> None:
    clocks = FairClocks()
    taken = [0] * OWNERS

    for _ in range(500):
        owner = min(range(OWNERS), key=lambda each: (clocks.of(each), each))
        clocks.reach(clocks.of(owner))
        clocks.advance(owner, costs[owner])
        taken[owner] += costs[owner]

    assert max(taken) - min(taken) <= 2 * max(costs)


def test_an_idle_owner_accumulates_no_credit() -> None:
    clocks = FairClocks()
    clocks.reach(clocks.advance("busy", 100))

    assert clocks.of("idle") == clocks.of("busy") == 100


def test_an_unknown_owner_is_ahead_of_nobody() -> None:
    clocks = FairClocks()
    clocks.reach(10)

    assert clocks.advance(None, 5) == 15
    assert clocks.advance(None, 5) == 15


def test_only_owners_that_are_ahead_are_remembered() -> None:
    clocks = FairClocks()
    clocks.advance("ahead", 10 * MANY)
    for owner in range(MANY):
        clocks.reach(clocks.advance(owner, 1))

    assert len(clocks._ahead) < MANY // 2
    assert clocks.of("ahead") == 10 * MANY
