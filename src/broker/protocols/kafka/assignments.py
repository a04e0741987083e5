"""Partitions by topic id, in the format of the consumer group messages."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.codec import bodies


def topic_partitions(
    partitions: Mapping[bytes, tuple[int, ...]],
) -> "list[bodies.ConsumerGroupHeartbeatResponseTopicPartition]":
    """Return one entry per topic."""
    return [{"topic_id": topic, "partitions": list(each)} for topic, each in partitions.items()]
