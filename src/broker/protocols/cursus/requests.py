"""The request that a handler receives, and the lookup of its topic."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from broker.core.broker import Broker
from broker.core.session import Session
from broker.core.topics.topic import Topic
from broker.protocols.base import Immediate
from broker.protocols.cursus.connections import ConnectionState
from broker.protocols.cursus.errors import quoted, refused
from broker.protocols.cursus.grammar import Command
from broker.protocols.cursus.protocol_state import ProtocolState

_PATTERN_SIGNS: Final = frozenset("*?")
# Without the topic of a record, a client could not commit an offset for each topic.
_NO_PATTERN: Final = quoted("only CONSUME takes a pattern: its records do not say their topic")


class Request(NamedTuple):
    """A command, its connection, and the protocol's state."""

    command: Command
    session: Session
    connection: ConnectionState
    state: ProtocolState

    @property
    def broker(self) -> Broker:
        """The broker's parts."""
        return self.session.broker

    def topic(self) -> Topic:
        """Return the topic of the command's parameter `topic`."""
        return find_topic(self.broker, self.command.need("topic"))


def find_topic(broker: Broker, name: str) -> Topic:
    """Return the topic of that name; raise RefusedError if it does not exist."""
    topic = broker.topics.get(name)
    if topic is not None:
        return topic
    if is_pattern(name):
        raise refused("topic_not_found", topic=name, reason=_NO_PATTERN)
    raise refused("topic_not_found", topic=name)


def is_pattern(name: str) -> bool:
    """Return whether a name is a pattern; no topic's name contains its signs."""
    return not _PATTERN_SIGNS.isdisjoint(name)


# A text, or another response.
Handler: TypeAlias = Callable[[Request], Awaitable[str | Immediate]]
