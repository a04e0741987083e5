"""The seed of a run: the same one repeats its order and its choices, another one has others."""

from itertools import pairwise
from random import Random

import pytest

from tests.support.run_seed import in_any_order, seeds_of_run


def test_any_order_keeps_each_module_in_one_piece(request: pytest.FixtureRequest) -> None:
    items = request.session.items

    shuffled = in_any_order(items, Random(1))

    modules = [item.path for item in shuffled]
    changes = sum(a != b for a, b in pairwise(modules))
    assert changes == len(set(modules)) - 1
    assert sorted(map(id, shuffled)) == sorted(map(id, items))


def test_a_seed_stands_for_one_order(request: pytest.FixtureRequest) -> None:
    items = request.session.items * 10  # enough for two orders to differ

    first, again, other = (in_any_order(items, Random(seed)) for seed in (1, 1, 2))

    assert first == again
    assert first != other


def test_each_run_has_its_own_choices_unless_a_seed_was_given(
    pytestconfig: pytest.Config, choices: Random, request: pytest.FixtureRequest
) -> None:
    seed = pytestconfig.getoption("--seed")

    assert seed is not None
    assert choices.random() == Random(f"{seed} {request.node.nodeid}").random()
    assert seeds_of_run(pytestconfig, "one") != seeds_of_run(pytestconfig, "another")
