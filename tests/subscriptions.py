"""Partitions as consumers name them in subscriptions and assignments."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Place: TypeAlias = tuple[str, int]


def place(text: str) -> Place:
    """`t-0` is partition 0 of t."""
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """The partitions of each topic, in the order given."""
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found


def said(places: Iterable[Place]) -> list[dict[str, Any]]:
    """What stands in a body of the consumer protocol."""
    topics = by_topic(places).items()
    return [{"topic": topic, "partitions": partitions} for topic, partitions in topics]


def heard(topics: Iterable[Mapping[str, Any]] | None) -> list[Place]:
    """What such a body says."""
    return [(each["topic"], partition) for each in topics or () for partition in each["partitions"]]
