"""How often partitions have got other leaders and ISRs, as this process has seen it."""

from broker.core.cluster.records import NO_LEADER, PartitionState


class SeenChanges:
    """Counts by the broker that leads the partition after the change.

    Attributes:
        elections: of another leader, or of another incarnation of it.
        unclean_elections: those of a broker that might not have all records.
        shrinks: of ISRs.
        expansions: of ISRs.
    """

    __slots__ = ("elections", "expansions", "shrinks", "unclean_elections")

    def __init__(self) -> None:
        """Begin at 0."""
        self.elections: dict[int, int] = {}
        self.unclean_elections: dict[int, int] = {}
        self.shrinks: dict[int, int] = {}
        self.expansions: dict[int, int] = {}

    def note(self, before: PartitionState | None, after: PartitionState | None) -> None:
        """Count a change of a partition; its creation and its end are none."""
        if before is None or after is None or after.leader == NO_LEADER:
            return
        leader = after.leader
        if (before.leader, before.broker_epoch) != (leader, after.broker_epoch):
            _add(self.elections, leader)
            if leader not in before.isr and leader not in before.elr:
                _add(self.unclean_elections, leader)
        if len(after.isr) < len(before.isr):
            _add(self.shrinks, leader)
        elif len(after.isr) > len(before.isr):
            _add(self.expansions, leader)


def _add(counts: dict[int, int], broker_id: int) -> None:
    counts[broker_id] = counts.get(broker_id, 0) + 1
