"""Correct random histories have no findings; with one mutation the checker finds it."""

from copy import deepcopy
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.histories.checker import check
from tests.histories.mutations import MUTATIONS, Mutation
from tests.histories.notation import history
from tests.histories.random_histories import Log

SEEDS = st.integers(0, 1 << 32)


@given(seed=SEEDS)
@settings(max_examples=200)
def test_a_correct_random_history_has_no_findings(seed: int) -> None:
    assert check(history(Log(Random(seed)).run())) == []


@pytest.mark.parametrize(
    ("name", "mutate"),
    [(name, each) for name, mutations in MUTATIONS.items() for each in mutations],
)
@given(seed=SEEDS)
@settings(max_examples=30)
def test_a_single_mutation_of_a_history_yields_the_right_finding(
    name: str, mutate: Mutation, seed: int
) -> None:
    random = Random(seed)
    changed = mutate(deepcopy(Log(random).run()), random)

    assert {finding.name for finding in check(history(changed))} == {name}
