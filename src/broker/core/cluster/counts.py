"""How many partitions each broker holds, alone or not, is the preferred leader of, and leads."""

from broker.core.cluster.records import NO_LEADER, Replicas


class PartitionCounts:
    """Four counts by broker id; brokers without any are missing.

    Attributes:
        replicas: of all partitions.
        replicated: of partitions that have other replicas, too.
        preferred: partitions of which a broker is the first replica.
        leaders: partitions that it leads.
    """

    __slots__ = ("leaders", "preferred", "replicas", "replicated")

    def __init__(self) -> None:
        """Begin without partitions."""
        self.replicas: dict[int, int] = {}
        self.replicated: dict[int, int] = {}
        self.preferred: dict[int, int] = {}
        self.leaders: dict[int, int] = {}

    def add(self, leader: int, replicas: Replicas, sign: int) -> None:
        """Add a partition (sign 1) or remove it (sign -1)."""
        for each in replicas:
            _change(self.replicas, each, sign)
            if len(replicas) > 1:
                _change(self.replicated, each, sign)
        if replicas:
            _change(self.preferred, replicas[0], sign)
        if leader != NO_LEADER:
            _change(self.leaders, leader, sign)


def _change(counts: dict[int, int], broker_id: int, sign: int) -> None:
    count = counts.get(broker_id, 0) + sign
    if count:
        counts[broker_id] = count
    else:
        del counts[broker_id]
