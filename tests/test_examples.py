"""Shares of hypothesis's examples, and of the cases of tests that have very many."""

from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import CASES_MAX, CASES_MIN, apply, cases


def test_a_share_of_the_examples_is_tried() -> None:
    tried: list[int] = []

    @settings(max_examples=50, database=None)
    @given(st.integers())
    def test(number: int) -> None:
        tried.append(number)

    apply(test, 0.2)
    test()

    assert len(tried) == 10


def test_functions_of_others_are_left_alone() -> None:
    apply(test_a_share_of_the_examples_is_tried, 0.2)
    apply(None, 0.2)


def cases_of(test: str, count: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(nodeid=f"{test}[{number}-a[b]]") for number in range(count)]


def test_a_share_of_the_cases_of_a_test_with_very_many_is_run() -> None:
    items = [*cases_of("test_a", 1_000), *cases_of("test_b", 55), *cases_of("test_c", CASES_MAX)]

    kept = cases(items, 0.2, seed=1)

    counts = [sum(name.startswith(test) for name in kept) for test in ("test_a", "test_b")]
    assert counts == [200, CASES_MIN]
    assert {item.nodeid for item in cases_of("test_c", CASES_MAX)} <= kept


def test_a_seed_chooses_the_same_cases_of_a_test_whatever_else_is_run() -> None:
    items = cases_of("test_a", 1_000)
    others = cases_of("test_b", 1_000)

    once, again, next_run = (cases(items, 0.2, seed) for seed in (1, 1, 2))

    assert once == again != next_run
    assert once == {name for name in cases([*others, *items], 0.2, 1) if name.startswith("test_a")}
    assert len(set().union(*(cases(items, 0.2, seed) for seed in range(60)))) == 1_000
