"""The goals: bounds of figures of a row, and of ratios of two rows in the same round."""

from collections.abc import Mapping, Sequence
from enum import Enum
from statistics import median
from typing import Final, NamedTuple

from benchmarks.spark.measuring import Cost
from benchmarks.spark.rows import Row


class Figure(Enum):
    """A compared figure; the text is its unit in goals without a second row."""

    SPEED = "M/s"
    SPARK = "us of Spark's processors per row"
    BROKER = "us of the broker's processor per row"
    TIME = "ms per trigger"

    def of(self, row: Row, cost: Cost) -> float:
        """Return the figure of one run."""
        if self is Figure.SPEED:
            return row.records / cost.seconds / 1e6
        if self is Figure.TIME:
            return cost.seconds / row.records * 1e3
        return (cost.spark if self is Figure.SPARK else cost.broker) / row.records * 1e6


class Goal(NamedTuple):
    """A bound for a figure of a row, alone or over the same figure of another row.

    The bound is a minimum for SPEED and a maximum for all others.
    """

    row: str
    figure: Figure
    bound: float
    over: str | None = None

    def is_met(self, value: float) -> bool:
        """Return whether a value meets the goal."""
        return value >= self.bound if self.figure is Figure.SPEED else value <= self.bound

    def text(self) -> str:
        """Return the goal as text."""
        sign = ">=" if self.figure is Figure.SPEED else "<="
        if self.over is None:
            return f"{self.row}: {sign} {self.bound:g} {self.figure.value}"
        what = {Figure.SPARK: ", Spark's processors", Figure.BROKER: ", the broker's processor"}
        return f"{self.row}: {sign} {self.bound:g} x {self.over}{what.get(self.figure, '')}"


_SPEED, _SPARK, _BROKER, _TIME = Figure
GOALS: Final = (
    Goal("topic", _SPEED, 3, "stock"),
    Goal("topic", _SPEED, 1.8, "stock tuned"),
    Goal("topic", _SPEED, 0.6, "ceiling"),
    Goal("topic, 1 KB", _SPEED, 2.5, "stock, 1 KB"),
    Goal("topic", _SPARK, 0.6, "stock"),
    Goal("topic", _BROKER, 0.06),
    Goal("stream", _SPEED, 1.8, "stock stream"),
    Goal("trigger", _TIME, 1.3, "stock trigger"),
    Goal("segments", _SPEED, 0.75, "ceiling"),
    Goal("segments, offset", _SPEED, 8),
    Goal("audit, two threads", _SPEED, 20),
    Goal("Parquet", _SPEED, 1.3, "stock Parquet"),
    Goal("archive", _SPEED, 3, "stock Parquet"),
    Goal("sink", _SPEED, 2.5, "stock sink"),
    Goal("sink, keys", _SPEED, 2.5, "stock sink, keys"),
    Goal("sink exactly-once", _SPEED, 1.5, "stock sink"),
    Goal("sink", _BROKER, 0.5, "stock sink on Kafka"),
    Goal("sink exactly-once", _BROKER, 0.5, "stock sink on Kafka"),
    Goal("stock", _SPEED, 1.15, "stock on Kafka"),
    Goal("stock tuned", _SPEED, 1.0, "stock tuned on Kafka"),
    Goal("stock", _BROKER, 0.4, "stock on Kafka"),
    Goal("stock tuned", _BROKER, 0.4, "stock tuned on Kafka"),
)


class Verdict(NamedTuple):
    """A goal and its measured values: median, minimum and maximum of the rounds."""

    goal: Goal
    value: float
    least: float
    greatest: float

    @property
    def is_met(self) -> bool:
        """Whether the median meets the goal."""
        return self.goal.is_met(self.value)


def verdicts(rows: Sequence[Row], costs: Mapping[str, Sequence[Cost]]) -> list[Verdict]:
    """Return the results of all goals whose rows were measured."""
    by_name = {each.name: each for each in rows if costs.get(each.name)}
    found = []
    for goal in GOALS:
        if goal.row not in by_name or (goal.over is not None and goal.over not in by_name):
            continue
        values = _values(goal.figure, by_name[goal.row], costs)
        if goal.over is not None:
            others = _values(goal.figure, by_name[goal.over], costs)
            values = [
                one / other for one, other in zip(values, others, strict=True) if other
            ]  # zero: below the resolution of the processor clock
        if values:
            found.append(Verdict(goal, median(values), min(values), max(values)))
    return found


def _values(figure: Figure, row: Row, costs: Mapping[str, Sequence[Cost]]) -> list[float]:
    return [figure.of(row, each) for each in costs[row.name]]
