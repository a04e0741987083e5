"""Partitions by topic id, as the messages of consumer groups write them."""

from collections.abc import Mapping

from broker.protocols.kafka.api import Fields


def topic_partitions(partitions: Mapping[bytes, tuple[int, ...]]) -> list[Fields]:
    """One entry per topic."""
    return [{"topic_id": topic, "partitions": list(each)} for topic, each in partitions.items()]
