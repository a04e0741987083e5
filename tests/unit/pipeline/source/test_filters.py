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

from broker.pipeline.source.bounds import Bounds
from broker.pipeline.source.filters import take

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


@pytest.mark.parametrize("kind", COMPARISONS)
@given(st.integers(0, 9), st.integers(0, 9))
def test_a_comparison_of_offsets_is_applied_exactly(kind: Any, number: int, offset: int) -> None:
    bounds, others = take([kind(("offset",), number)])

    assert others == []
    assert lets_through(bounds, "offset", offset) == COMPARISONS[kind](offset, number)


@pytest.mark.parametrize("kind", COMPARISONS)
@given(st.integers(0, 9).map(lambda halves: halves * 500), st.integers(0, 5))
def test_a_comparison_of_times_is_applied_exactly_also_between_milliseconds(
    kind: Any, us: int, ms: int
) -> None:
    days = 20_000
    condition = kind(("timestamp",), EPOCH + timedelta(days=days, microseconds=us))
    bounds, others = take([condition])

    # Records without a time, -1, are older than any for the broker, and null for Spark.
    assert others == ([condition] if lets_through(bounds, "timestamp", -1) else [])
    found = lets_through(bounds, "timestamp", days * 86_400_000 + ms)
    assert found == COMPARISONS[kind](ms * 1000, us)


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
def test_an_accepted_filter_is_not_handed_back(condition: Filter, bounds: Bounds) -> None:
    assert take([condition]) == (bounds, [])


@pytest.mark.parametrize(
    "condition",
    [
        IsNotNull(("key",)),
        IsNotNull(("timestamp",)),
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


def test_filters_are_combined() -> None:
    partitions = [In(("partition",), (1, 2)), In(("partition",), (2, 3))]
    offsets: list[Filter] = [GreaterThan(("offset",), each) for each in (4, 6, 5)]
    offsets += [LessThan(("offset",), each) for each in (10, 8, 9)]
    bounds, others = take([*partitions, *offsets])

    assert others == []
    assert bounds == Bounds(min_offset=7, max_offset=7, partitions=frozenset({2}))
