"""Partitions as consumers name them in subscriptions and assignments."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

Place: TypeAlias = tuple[str, int]


def place(text: str) -> Place:
    """Return partition 0 of t for `t-0`."""
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def by_topic(places: Iterable[Place]) -> dict[str, list[int]]:
    """Return the partitions of each topic, in the given order."""
    found: dict[str, list[int]] = {}
    for topic, partition in places:
        found.setdefault(topic, []).append(partition)
    return found


def said(places: Iterable[Place]) -> list[dict[str, Any]]:
    """Return a body of the consumer protocol."""
    topics = by_topic(places).items()
    return [{"topic": topic, "partitions": partitions} for topic, partitions in topics]


def heard(topics: Iterable[Mapping[str, Any]] | None) -> list[Place]:
    """Return the content of such a body."""
    return [(each["topic"], partition) for each in topics or () for partition in each["partitions"]]
