"""KIP-98's rules for a producer's batch, in a few plain lines.

All batches of every producer are kept; eviction and expiry are not modelled.
"""

from broker.model.log_results import AppendResult, AppendStatus

KEPT = 5
SEQUENCES = 2**31


class Producers:
    """The producers of one partition, and the offsets of their batches."""

    def __init__(self) -> None:
        """Start with an empty partition."""
        self.end_offset = 0
        self.batches: dict[int, list[tuple[int, int, int, int]]] = {}

    def append(self, producer: int, epoch: int, sequence: int, count: int) -> AppendResult:
        """Return what PartitionLog.append must return."""
        earlier = self.batches.setdefault(producer, [])
        if earlier and epoch < earlier[-1][0]:
            return AppendResult(AppendStatus.SEQUENCE_FENCED)
        same_epoch = [batch for batch in earlier if batch[0] == epoch]
        for _, known, known_count, offset in same_epoch[-KEPT:]:
            if (known, known_count) == (sequence, count):
                return AppendResult(AppendStatus.DUPLICATE, offset, offset + count)
        if earlier and sequence != self._expected(same_epoch):
            return AppendResult(AppendStatus.SEQUENCE_OUT_OF_ORDER)
        earlier.append((epoch, sequence, count, self.end_offset))
        self.end_offset += count
        return AppendResult(AppendStatus.APPENDED, self.end_offset - count, self.end_offset)

    def _expected(self, same_epoch: list[tuple[int, int, int, int]]) -> int:
        if not same_epoch:
            return 0
        _, sequence, count, _ = same_epoch[-1]
        return (sequence + count) % SEQUENCES
