"""Partitions by topic id, in the format of the consumer group messages."""

from collections.abc import Mapping

from broker.protocols.kafka.api import Fields


def topic_partitions(partitions: Mapping[bytes, tuple[int, ...]]) -> list[Fields]:
    """Return one entry per topic."""
    return [{"topic_id": topic, "partitions": list(each)} for topic, each in partitions.items()]
