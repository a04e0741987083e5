"""Attacks by topics: as many as the limit allows, created and deleted at full speed."""

from contextlib import ExitStack, suppress
from typing import Any

from tests.support.wire_client import ConnectionClosedError, WireClient

WIDE_PARTITIONS = 300
TOPICS = 100
TOPICS_PER_REQUEST = 50


def creation(names: list[str], partitions: int = 1) -> dict[str, Any]:
    """A CreateTopics."""
    topics = [{"name": n, "num_partitions": partitions, "replication_factor": 1} for n in names]
    return {"topics": topics, "timeout_ms": 60_000}


def create_many_partitions_at_once(address: str, held: ExitStack) -> None:
    """Create many partitions in one topic, and more than allowed in another; then delete it."""
    client = held.enter_context(WireClient(address))
    with suppress(ConnectionClosedError):
        client.request("CreateTopics", 5, creation(["too-wide"], 0x7FFFFFFF))
        client.request("CreateTopics", 5, creation(["very-wide"], WIDE_PARTITIONS))
        client.request("Metadata", 9, {"topics": None})
        client.request("DeleteTopics", 5, {"topic_names": ["very-wide"], "timeout_ms": 60_000})


def create_topics_without_end(address: str, held: ExitStack) -> None:
    """Create many topics, each with a log, and delete all in one request."""
    client = held.enter_context(WireClient(address))
    names = [f"stormy-{n}" for n in range(TOPICS)]
    with suppress(ConnectionClosedError):
        for start in range(0, TOPICS, TOPICS_PER_REQUEST):
            client.request("CreateTopics", 5, creation(names[start : start + TOPICS_PER_REQUEST]))
        client.request("Metadata", 9, {"topics": None})
        client.request("DeleteTopics", 5, {"topic_names": names, "timeout_ms": 60_000})


ATTACKS = [create_many_partitions_at_once, create_topics_without_end]
