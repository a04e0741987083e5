"""What the checks ask of a client library, in words that all of them share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tests.broker_process import wait_until

EARLIEST = "earliest"
LATEST = "latest"

# Short enough that a lost member is noticed in a test, long enough for a busy machine.
SESSION_TIMEOUT_MS = 3_000
HEARTBEAT_INTERVAL_MS = 500
REQUEST_TIMEOUT_S = 20.0
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
    """Poll until `count` records have come."""
    read: list[Record] = []

    def has_enough() -> bool:
        polled = poll()
        read.extend(polled)
        if not polled and when_idle is not None:
            when_idle()
        return len(read) >= count

    wait_until(has_enough, f"{count} records", REQUEST_TIMEOUT_S)
    return read


class Member(Protocol):
    """A consumer of a group."""

    def poll(self) -> list[Record]:
        """Return what has arrived, waiting a moment for it."""

    def assignment(self) -> list[int]:
        """Return the partitions that are this member's now, sorted."""

    def commit(self) -> None:
        """Commit the position of everything polled, and wait for the answer."""

    def close(self) -> None:
        """Leave the group without committing."""


class Client(Protocol):
    """One client library."""

    name: str

    def close(self) -> None:
        """Let everything go."""

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Create a topic and wait for it."""

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait for the answer."""

    def topics(self) -> dict[str, int]:
        """Return every topic with its number of partitions, from Metadata."""

    def brokers(self) -> list[str]:
        """Return the advertised host:port of every broker."""

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

        `when_idle` is called whenever nothing came for a moment.
        """

    def offset_for_time(self, topic: str, timestamp: int) -> int | None:
        """Return the first offset of partition 0 with that timestamp or a later one."""

    def join(self, group: str, topic: str) -> Member:
        """Become a member of a group that starts at the earliest offset."""
