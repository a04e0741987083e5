"""Translates filters pushed down by Spark to bounds of a read.

A translated filter is enforced exactly, so Spark need not apply it again; all others are returned
to Spark. A record without a timestamp has -1 in the log and null in Spark. A filter whose bounds
allow -1 narrows the read and is returned as well, so that Spark leaves out the nulls.
"""

import math
from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from broker.pipeline.source.bounds import Bounds

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER_NULL: Final = frozenset({"topic", "partition", "offset", "timestampType"})
_NO_TIMESTAMP_MS: Final = -1
# Column → field of Bounds, and the types of its values.
_SETS: Final[dict[str, tuple[str, tuple[type, ...]]]] = {
    "topic": ("topics", (str,)),
    "partition": ("partitions", (int,)),
    "key": ("keys", (bytes, bytearray)),
}


def take(filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """Return the bounds of all filters together, and the filters that Spark must apply."""
    bounds, others = Bounds(), []
    for each in filters:
        narrower = _narrowed(bounds, each)
        if narrower is not None:
            bounds = narrower
        if narrower is None or _may_be_null(each):
            others.append(each)
    return bounds, others


def _may_be_null(condition: Filter) -> bool:
    """Return whether the bounds of a filter allow a record without a timestamp."""
    if getattr(condition, "attribute", ()) != ("timestamp",):
        return False
    only = _narrowed(Bounds(), condition)
    if only is None:
        return False
    low, high = only.min_timestamp, only.max_timestamp
    return (low is None or low <= _NO_TIMESTAMP_MS) and (high is None or high >= _NO_TIMESTAMP_MS)


def _narrowed(bounds: Bounds, condition: Filter) -> Bounds | None:
    attribute: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(attribute) != 1:
        return None
    [name] = attribute
    match condition:
        case IsNotNull():
            return bounds if name in _NEVER_NULL else None
        case In():
            return _one_of(bounds, name, condition.value)
        case EqualTo() if name in _SETS:
            return _one_of(bounds, name, [condition.value])
        case EqualTo() | GreaterThan() | GreaterThanOrEqual() | LessThan() | LessThanOrEqual():
            return _compared(bounds, name, condition, condition.value)
    return None


def _compared(bounds: Bounds, name: str, condition: Filter, value: Any) -> Bounds | None:  # noqa: ANN401 - any value of Spark
    if name == "offset" and type(value) is int:
        low, high = _interval(condition, value, value)
    elif name == "timestamp" and isinstance(value, datetime):
        ms = _milliseconds(value)
        low, high = _interval(condition, math.floor(ms), math.ceil(ms))
    else:
        return None
    return _within(bounds, name, low, high)


def _interval(condition: Filter, floor: int, ceiling: int) -> tuple[int | None, int | None]:
    """Return the integers that satisfy a comparison with a number between floor and ceiling."""
    match condition:
        case GreaterThan():
            return floor + 1, None
        case GreaterThanOrEqual():
            return ceiling, None
        case LessThan():
            return None, ceiling - 1
        case LessThanOrEqual():
            return None, floor
    return ceiling, floor  # equality; empty if the number is not an integer


def _milliseconds(time: datetime) -> float:
    """Return ms since 1970; exact, since microseconds until 2255 fit into a float's 53 bits."""
    if time.tzinfo is None:
        time = time.astimezone()  # as PySpark reads its own timestamps
    past = time - _EPOCH
    return (past.days * 86_400 + past.seconds) * 1000 + past.microseconds / 1000


def _within(bounds: Bounds, name: str, low: int | None, high: int | None) -> Bounds:
    lows = [each for each in (getattr(bounds, f"min_{name}"), low) if each is not None]
    highs = [each for each in (getattr(bounds, f"max_{name}"), high) if each is not None]
    narrower: dict[str, Any] = {
        f"min_{name}": max(lows, default=None),
        f"max_{name}": min(highs, default=None),
    }
    return replace(bounds, **narrower)


def _one_of(bounds: Bounds, name: str, values: Collection[Any]) -> Bounds | None:
    if name not in _SETS:
        return None
    field, types = _SETS[name]
    if not all(isinstance(each, types) and not isinstance(each, bool) for each in values):
        return None
    allowed = frozenset(bytes(each) if name == "key" else each for each in values)
    now: frozenset[Any] | None = getattr(bounds, field)
    narrower: dict[str, Any] = {field: allowed if now is None else now & allowed}
    return replace(bounds, **narrower)
