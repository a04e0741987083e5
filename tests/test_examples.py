"""Shares of hypothesis's examples."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import apply


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
