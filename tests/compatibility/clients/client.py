"""The interface that the client tests use for every library."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from tests.support.broker_process import wait_until

EARLIEST = "earliest"
LATEST = "latest"

# Short enough that a lost member is noticed within a test, and long enough that a busy machine does
# not lose a live one.
SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_INTERVAL_MS = 500
REQUEST_TIMEOUT_S = 60.0
POLL_TIMEOUT_S = 0.1


@dataclass(frozen=True)
class Record:
    """A record as written, and as read back when `offset` is known."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None
    partition: int = 0
    offset: int = -1


def collect(
    poll: Callable[[], list[Record]], count: int, when_idle: Callable[[], object] | None
) -> list[Record]:
    """Poll until `count` records have arrived."""
    read: list[Record] = []

    def has_enough() -> bool:
        polled = poll()
        read.extend(polled)
        if not polled and when_idle is not None:
            when_idle()
        return len(read) >= count

    wait_until(has_enough, f"{count} records", REQUEST_TIMEOUT_S)
    return read


class Reader(ABC):
    """A consumer of the library, positioned at its start offset."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    @abstractmethod
    def poll(self) -> list[Record]:
        """Return what has arrived, after waiting a moment for it."""

    @abstractmethod
    def close(self) -> None:
        """Close it; a group is left without a commit."""


class Member(Reader):
    """A consumer of a group."""

    def assignment(self) -> list[int]:
        """Return the partitions that this member owns now, sorted."""
        return sorted(place.partition for place in self._consumer.assignment())

    @abstractmethod
    def commit(self) -> None:
        """Commit the position of everything polled, and wait for the response."""


@dataclass(frozen=True)
class Producing:
    """How records are written."""

    compression: str
    acks: str
    idempotent: bool


class Client(ABC):
    """One client library."""

    name: str

    def produce(
        self,
        topic: str,
        records: list[Record],
        *,
        compression: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[int]:
        """Write records to the partitions they name and return the acknowledged offsets."""
        return self.write(topic, records, Producing(compression, acks, idempotent))

    def consume(
        self,
        topic: str,
        start: int | str,
        count: int,
        *,
        partitions: int = 1,
        when_idle: Callable[[], object] | None = None,
    ) -> list[Record]:
        """Read at least `count` records of the first partitions without a group.

        `when_idle` is called whenever nothing arrived for a moment.
        """
        with closing(self.reader(topic, range(partitions), start)) as reader:
            return collect(reader.poll, count, when_idle)

    @abstractmethod
    def close(self) -> None:
        """Close everything."""

    @abstractmethod
    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic and wait for it."""

    @abstractmethod
    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait for the response."""

    @abstractmethod
    def topics(self) -> dict[str, int]:
        """Return every topic with its number of partitions, from Metadata."""

    @abstractmethod
    def brokers(self) -> list[str]:
        """Return the advertised host:port of every broker."""

    @abstractmethod
    def write(self, topic: str, records: list[Record], how: Producing) -> list[int]:
        """Produce with the options of `produce`."""

    @abstractmethod
    def reader(self, topic: str, partitions: range, start: int | str) -> Reader:
        """Return a reader of partitions, without a group, from an offset or EARLIEST or LATEST."""

    @abstractmethod
    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        """Return the first offset of partition 0 with that timestamp or a later one."""

    @abstractmethod
    def join(self, group: str, topic: str) -> Member:
        """Join a group that starts at the earliest offset."""
