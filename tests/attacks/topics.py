"""The topics that attacks are about."""

from tests.support.wire_client import WireClient

TOPICS = 2
PARTITIONS = 300


def wide_topics(address: str) -> list[str]:
    """Create topics with many partitions; later calls find them."""
    names = [f"asked-{n}" for n in range(TOPICS)]
    wanted = [{"name": n, "num_partitions": PARTITIONS, "replication_factor": 1} for n in names]
    with WireClient(address) as client:
        client.request("CreateTopics", 5, {"topics": wanted, "timeout_ms": 60_000})
    return names
