"""What transactions need of the other brokers of a cluster; a standalone broker has none of it."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from broker.codec.control_records import Marker
from broker.core.transactions.commands import Producer
from broker.core.transactions.records import TopicPartition
from broker.model.errors import ErrorCode


class OwedMarker(NamedTuple):
    """A marker that a partition has to get.

    Attributes:
        place: the partition.
        marker: the marker.
        version: EPOCH_BUMP_VERSION if the marker's epoch is above that of its transaction, or less.
        is_owed: returns whether this broker still has to write it.
        answer: gets NONE once the marker is on the disk, or else an error.
    """

    place: TopicPartition
    marker: Marker
    version: int
    is_owed: Callable[[], bool]
    answer: Callable[[ErrorCode], None]


class OtherLeaders(Protocol):
    """The partitions that other brokers lead: remote_markers.py."""

    def exists(self, place: TopicPartition) -> bool:
        """Return whether a topic has this partition, whoever leads it."""

    def write(self, owed: OwedMarker) -> None:
        """Send a marker to the leader of its partition."""

    def close(self) -> None:
        """Send nothing more."""


class OtherCoordinators(Protocol):
    """The transactional ids that other brokers coordinate: remote_admission.py."""

    async def admit(
        self, producer: Producer, places: Sequence[TopicPartition], *, adds: bool
    ) -> list[ErrorCode]:
        """Ask the coordinator; logs accept the producer's batches where the error is NONE."""

    def marker_written(self, producer_id: int, place: TopicPartition) -> None:
        """Revoke what is being asked about a producer's transaction in a partition."""


def _never(_callback: Callable[[], None]) -> None:
    pass


class OtherBrokers(NamedTuple):
    """The other brokers of a cluster.

    Attributes:
        leaders: get markers.
        coordinators: are asked whether batches belong to transactions.
        when_leaders_change: registers a callback for changes of who leads partitions.
    """

    leaders: OtherLeaders
    coordinators: OtherCoordinators
    when_leaders_change: Callable[[Callable[[], None]], None] = _never
