"""The request that a handler receives, and the lookups that handlers share."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from broker.core.broker import Broker
from broker.core.forwarding import check_coordinated
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.session import Session
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.base import Immediate
from broker.protocols.cursus.connections import ConnectionState
from broker.protocols.cursus.errors import RefusedError
from broker.protocols.cursus.grammar import Command, is_pattern
from broker.protocols.cursus.protocol_state import ProtocolState
from broker.protocols.cursus.reads import Read

_NO_PATTERN: Final = "only CONSUME, FETCH_OFFSET and COMMIT_OFFSET take a pattern"


class Request(NamedTuple):
    """A command, its connection, and the protocol's state."""

    command: Command
    session: Session
    connection: ConnectionState
    state: ProtocolState
    body: bytes = b""  # of the frame, as it was received

    @property
    def broker(self) -> Broker:
        """The broker's parts."""
        return self.session.broker

    async def groups(self, group: str | None = None) -> GroupCoordinator:
        """Return the coordinator of a group; the first call creates `__consumer_offsets`.

        None: of those groups whose coordinator this broker is.

        Raises:
            ElsewhereError: another broker is the group's coordinator.
            RequestError: COORDINATOR_NOT_AVAILABLE, the topic could not be created.
        """
        try:
            await self.broker.topics.offsets_topic()
        except RequestError as error:
            raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message) from error
        if group is not None:
            check_coordinated(self.session, group)
        return self.broker.groups

    def topic(self) -> Topic:
        """Return the topic of the command's parameter `topic`."""
        return find_topic(self.broker, self.command.need("topic"))


def find_topic(broker: Broker, name: str) -> Topic:
    """Return the topic of that name; raise RefusedError if it does not exist."""
    topic = broker.topics.get(name)
    if topic is None:
        detail = _NO_PATTERN if is_pattern(name) else None
        raise RefusedError("topic_not_found", topic=name, detail=detail)
    return topic


def check_partition(topic: Topic, partition: int) -> None:
    """Raise RefusedError if the topic does not have the partition."""
    if not 0 <= partition < topic.partition_count:
        raise RefusedError("partition_not_found", partition=partition)


def having_partition(topics: list[Topic], read: Read) -> list[Topic]:
    """Return the topics that have the partition to read; raise RefusedError if none does."""
    if not topics:
        raise RefusedError("command_failed", detail=f"topic '{read.name}' does not exist")
    found = [topic for topic in topics if 0 <= read.partition < topic.partition_count]
    if not found:
        last = max(topic.partition_count for topic in topics) - 1
        text = f"partition {read.partition} out of range for topic '{read.name}' (0-{last})"
        raise RefusedError("command_failed", detail=text)
    return found


# A text, or another response.
Handler: TypeAlias = Callable[[Request], Awaitable[str | Immediate]]
