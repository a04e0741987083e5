"""Hanging transactions: open ones in a log that no coordinator knows; they are aborted.

Otherwise the last stable offset would be stuck, and readers of committed records with it. A
partition's addition is durable before its first append, so there are none, unless
`__transaction_state` was deleted or an older broker left them. They are recognised once every
transactional id is loaded and a log's own state is recovered. An unreadable record of
`__transaction_state` leaves it in doubt: then they stay open for an operator to end, because an
abort could undo a commit that was acknowledged.
"""

import logging
from collections.abc import Callable

from broker.codec.control_records import Marker
from broker.core.coordination.notes import Notes
from broker.core.transactions.markers import Markers
from broker.core.transactions.records import TopicPartition
from broker.model import limits
from broker.model.errors import ErrorCode

logger = logging.getLogger(__name__)
_EPOCH_MIN = 0


class HangingTransactions:
    """The open transactions of recovered logs, until their coordinator is known."""

    def __init__(self, markers: Markers, notes: Notes) -> None:
        """Start without logs to check."""
        self._markers = markers
        self._notes = notes
        # In the order of `suspect`, with the producers that are still to be checked; None: all of
        # them.
        self._suspects: dict[TopicPartition, tuple[int, ...] | None] = {}
        self._failed: dict[TopicPartition, None] = {}

    def suspect(self, topic_partition: TopicPartition) -> None:
        """Queue a recovered log that has open transactions."""
        self._suspects[topic_partition] = None

    @property
    def has_suspects(self) -> bool:
        """Whether there are logs to check."""
        return bool(self._suspects)

    @property
    def wants_retry(self) -> bool:
        """Whether there are logs in which an abort could not be written."""
        return bool(self._failed)

    def retry(self) -> None:
        """Queue those logs again."""
        self._suspects |= self._failed
        self._failed = {}

    def abort_some(
        self, is_known: Callable[[int, TopicPartition], bool], *, is_certain: bool
    ) -> None:
        """Check the next open transactions, and abort those that no coordinator knows.

        Unless `is_certain`, an unreadable record of `__transaction_state` may belong to them: they
        may have been committed, and an operator has to decide.
        """
        budget = limits.MARKERS_PER_TURN
        while self._suspects and budget > 0:
            topic_partition = next(iter(self._suspects))
            left = self._suspects.pop(topic_partition)
            log = self._markers.find_log(topic_partition)
            if log is None or log.is_loading:
                budget -= 1
                continue
            still_open = log.open_transactions
            producers = tuple(still_open) if left is None else left
            for producer_id in producers[:budget]:
                if producer_id in still_open and not is_known(producer_id, topic_partition):
                    known = log.active_producer(producer_id)
                    # A full log does not remember the producer: then an epoch that fences no other.
                    producer_epoch = _EPOCH_MIN if known is None else known[1]
                    if is_certain:
                        self._abort(
                            topic_partition, Marker(producer_id, producer_epoch, False, _EPOCH_MIN)
                        )
                    else:
                        self._leave_open(topic_partition, producer_id, still_open[producer_id])
            if len(producers) > budget:
                self._suspects[topic_partition] = producers[budget:]
            budget -= max(1, len(producers))

    def _leave_open(
        self, topic_partition: TopicPartition, producer_id: int, first_offset: int
    ) -> None:
        topic, partition = topic_partition
        logger.error(
            "transaction left open topic=%s partition=%d producer_id=%d first_offset=%d: no"
            " coordinator knows of it, and a record of __transaction_state could not be read that"
            " may have decided it; 'kafka-transactions.sh abort --topic %s --partition %d"
            " --start-offset %d' aborts it",
            topic,
            partition,
            producer_id,
            first_offset,
            topic,
            partition,
            first_offset,
        )

    def _abort(self, topic_partition: TopicPartition, marker: Marker) -> None:
        topic, partition = topic_partition

        def written(error: ErrorCode) -> None:
            if error is not ErrorCode.NONE:
                self._failed[topic_partition] = None
            line = (
                f"transaction abort topic={topic} partition={partition}"
                f" producer_id={marker.producer_id} epoch={marker.producer_epoch}"
                f" outcome={error.name} reason=no coordinator knows of it"
            )
            self._notes.log([line])

        self._markers.write_here(topic_partition, marker, self._markers.batch(marker), written)
