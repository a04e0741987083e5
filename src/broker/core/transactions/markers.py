"""Writes markers into the logs of clients and of groups; reports when they are on the disk.

A marker for a partition that another broker leads is sent to that broker (remote_markers.py).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from broker.codec.control_records import Marker, encode_marker
from broker.core.logs.log import TransactionalLog
from broker.core.topics.topic import OFFSETS_TOPIC
from broker.core.transactions.records import TopicPartition
from broker.model.clock import Clock
from broker.model.errors import ErrorCode, PolylogError

if TYPE_CHECKING:
    from broker.core.transactions.other_brokers import OtherBrokers, OwedMarker

# What the group coordinator answers when another broker leads the partition, or it is loading.
_NOT_THE_COORDINATOR = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
)


class Markers:
    """Writes markers into partitions."""

    def __init__(
        self,
        find_log: Callable[[TopicPartition], TransactionalLog | None],
        end_in_groups: Callable[[int, Marker, Callable[[ErrorCode], None]], None],
        clock: Clock,
        others: "OtherBrokers | None" = None,
    ) -> None:
        """Keep what it needs.

        Args:
            find_log: returns the log of a partition that this broker leads, or None.
            end_in_groups: writes a marker into a partition of `__consumer_offsets` through the
                group coordinator, where it decides pending offsets.
            clock: for the timestamps of markers.
            others: the other brokers of a cluster; None: this broker is standalone, and has a log
                of every partition that exists.
        """
        self.find_log = find_log
        self._end_in_groups = end_in_groups
        self._clock = clock
        self._others = others

    def batch(self, marker: Marker) -> bytes:
        """Return the encoded marker, the same for every log."""
        return encode_marker(marker, timestamp_ms=self._clock.wall_ms())

    def is_led_elsewhere(self, place: TopicPartition) -> bool:
        """Return whether a partition exists of which another broker has the log."""
        others = self._others
        return others is not None and self.find_log(place) is None and others.leaders.exists(place)

    def send(self, owed: "OwedMarker") -> None:
        """Send a marker of this broker's coordinator to the broker that leads its partition."""
        assert self._others is not None
        self._others.leaders.write(owed)

    def write_here(
        self,
        place: TopicPartition,
        marker: Marker,
        batch: bytes,
        answer: Callable[[ErrorCode], None],
    ) -> None:
        """Append a marker to a log of this broker; answer once it is on the disk.

        NOT_LEADER_OR_FOLLOWER: another broker leads the partition, or it is still loading.
        UNKNOWN_TOPIC_OR_PARTITION: the topic was deleted, and the transaction's data with it.
        Every failure goes to `answer`; no PolylogError is raised.
        """
        topic, partition = place
        log = self.find_log(place)
        if log is None:
            exists = self._others is not None and self._others.leaders.exists(place)
            answer(
                ErrorCode.NOT_LEADER_OR_FOLLOWER if exists else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        elif log.is_loading or not log.is_led:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            if self._others is not None:
                self._others.coordinators.marker_written(marker.producer_id, place)
            if topic == OFFSETS_TOPIC:
                self._end_in_groups(partition, marker, lambda error: answer(_of_leader(error)))
            else:
                _append(log, batch, answer)


def _of_leader(error: ErrorCode) -> ErrorCode:
    """Return the error of a partition's leader for one of a coordinator, as Kafka does."""
    return ErrorCode.NOT_LEADER_OR_FOLLOWER if error in _NOT_THE_COORDINATOR else error


def _append(log: TransactionalLog, batch: bytes, answer: Callable[[ErrorCode], None]) -> None:
    def finish(is_durable: bool) -> None:
        if not log.is_led:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            answer(ErrorCode.NONE if is_durable else ErrorCode.KAFKA_STORAGE_ERROR)

    try:
        offset = log.append_internal(batch)
    except PolylogError:  # any failure has to be reported
        answer(ErrorCode.KAFKA_STORAGE_ERROR)
    else:
        log.when_synced(offset + 1, finish)
