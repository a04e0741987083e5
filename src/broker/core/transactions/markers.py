"""Writes markers into the logs of clients and of groups; reports when they are on the disk."""

from collections.abc import Callable
from typing import NamedTuple

from broker.codec.control_records import Marker, encode_marker
from broker.core.logs.log import TransactionalLog
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.core.transactions.records import TopicPartition
from broker.model.clock import Clock
from broker.model.errors import ErrorCode, PolylogError


class Markers(NamedTuple):
    """Writes markers into partitions.

    Attributes:
        find_log: returns the log of a partition; None: its topic was deleted.
        end_in_groups: writes a marker into a partition of `__consumer_offsets` through the group
            coordinator, where it decides pending offsets.
        clock: for the timestamps of markers.
    """

    find_log: Callable[[TopicPartition], TransactionalLog | None]
    end_in_groups: Callable[[int, Marker, Callable[[ErrorCode], None]], None]
    clock: Clock

    def batch(self, marker: Marker) -> bytes:
        """Return the encoded marker, the same for every log."""
        return encode_marker(marker, timestamp_ms=self.clock.wall_ms())

    def write(
        self,
        topic_partition: TopicPartition,
        marker: Marker,
        batch: bytes,
        answer: Callable[[ErrorCode], None],
    ) -> None:
        """Append a marker; `answer` is called once it is on the disk, or with the error.

        Every failure goes to `answer`; no PolylogError is raised.
        """
        topic, partition = topic_partition
        log = self.find_log(topic_partition)
        if log is None:
            answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        elif log.is_loading:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif topic == OFFSETS_TOPIC:
            self.end_in_groups(partition, marker, answer)
        else:
            _append(log, batch, answer)


def _append(log: TransactionalLog, batch: bytes, answer: Callable[[ErrorCode], None]) -> None:
    def finish(is_durable: bool) -> None:
        answer(ErrorCode.NONE if is_durable else ErrorCode.KAFKA_STORAGE_ERROR)

    try:
        offset = log.append_internal(batch)
    except PolylogError:  # any failure has to be reported
        answer(ErrorCode.KAFKA_STORAGE_ERROR)
    else:
        log.when_synced(offset + 1, finish)
