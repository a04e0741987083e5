"""Spark's filters as bounds."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from broker.pipeline.source.filters import Bounds, take

COMPARISONS: dict[Any, Callable[[int, int], bool]] = {
    EqualTo: lambda one, other: one == other,
    GreaterThan: lambda one, other: one > other,
    GreaterThanOrEqual: lambda one, other: one >= other,
    LessThan: lambda one, other: one < other,
    LessThanOrEqual: lambda one, other: one <= other,
}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def lets_through(bounds: Bounds, name: str, number: int) -> bool:
    low, high = getattr(bounds, f"min_{name}"), getattr(bounds, f"max_{name}")
    return (low is None or low <= number) and (high is None or number <= high)


@given(
    st.lists(st.tuples(st.sampled_from(list(COMPARISONS)), st.integers(0, 9))), st.integers(0, 9)
)
def test_comparisons_of_offsets_are_kept_exactly(asked: list[tuple[Any, int]], offset: int) -> None:
    bounds, others = take([kind(("offset",), number) for kind, number in asked])

    assert others == []
    assert lets_through(bounds, "offset", offset) == all(
        COMPARISONS[kind](offset, number) for kind, number in asked
    )


@given(
    st.lists(st.tuples(st.sampled_from(list(COMPARISONS)), st.integers(0, 9000))),
    st.integers(0, 9),
)
def test_comparisons_of_times_are_kept_exactly_between_milliseconds_too(
    asked: list[tuple[Any, int]], ms: int
) -> None:
    far = timedelta(days=20_000)
    bounds, others = take(
        [kind(("timestamp",), EPOCH + far + timedelta(microseconds=us)) for kind, us in asked]
    )

    assert others == []
    assert lets_through(bounds, "timestamp", 20_000 * 86_400_000 + ms) == all(
        COMPARISONS[kind](ms * 1000, us) for kind, us in asked
    )


@pytest.mark.parametrize(
    ("condition", "bounds"),
    [
        (EqualTo(("partition",), 3), Bounds(partitions=frozenset({3}))),
        (In(("partition",), (3, 4)), Bounds(partitions=frozenset({3, 4}))),
        (EqualTo(("topic",), "t"), Bounds(topics=frozenset({"t"}))),
        (EqualTo(("key",), bytearray(b"k")), Bounds(keys=frozenset({b"k"}))),
        (In(("key",), (b"k", b"l")), Bounds(keys=frozenset({b"k", b"l"}))),
        (IsNotNull(("offset",)), Bounds()),
    ],
)
def test_a_filter_that_is_taken_is_not_handed_back(condition: Filter, bounds: Bounds) -> None:
    assert take([condition]) == (bounds, [])


@pytest.mark.parametrize(
    "condition",
    [
        IsNotNull(("key",)),
        IsNull(("key",)),
        EqualTo(("value",), b"v"),
        EqualTo(("key",), None),
        EqualTo(("offset",), None),
        EqualTo(("headers", "key"), 3),
        GreaterThan(("partition",), 3),
        GreaterThan(("key",), b"k"),
        Not(EqualTo(("offset",), 3)),
        In(("offset",), (3, 4)),
        In(("key",), (b"k", None)),
    ],
)
def test_every_other_filter_is_handed_back(condition: Filter) -> None:
    assert take([condition]) == (Bounds(), [condition])


def test_filters_narrow_each_other() -> None:
    bounds, _ = take([In(("partition",), (1, 2)), In(("partition",), (2, 3))])

    assert bounds.partitions == frozenset({2})
