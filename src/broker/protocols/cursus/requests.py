"""What a handler is given."""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, TypeAlias

from broker.core.broker import Broker
from broker.core.session import Session
from broker.core.topic import Topic
from broker.protocols.base import Answer
from broker.protocols.cursus.connections import ConnectionState
from broker.protocols.cursus.errors import quoted, refused
from broker.protocols.cursus.grammar import Command
from broker.protocols.cursus.memory import Memory

_PATTERN_SIGNS: Final = frozenset("*?")
# So nobody could say how far a group has read each of them.
_NO_PATTERN: Final = quoted("only CONSUME takes a pattern: its records do not say their topic")


class Request(NamedTuple):
    """A command, and where it came from."""

    command: Command
    session: Session
    connection: ConnectionState
    memory: Memory

    @property
    def broker(self) -> Broker:
        """The broker's parts."""
        return self.session.broker

    def topic(self) -> Topic:
        """The topic that the command names."""
        return find_topic(self.broker, self.command.need("topic"))


def find_topic(broker: Broker, name: str) -> Topic:
    """The topic of that name, or the error that there is none."""
    topic = broker.topics.get(name)
    if topic is not None:
        return topic
    if is_pattern(name):
        raise refused("topic_not_found", topic=name, reason=_NO_PATTERN)
    raise refused("topic_not_found", topic=name)


def is_pattern(name: str) -> bool:
    """Whether it may stand for several topics: no topic has such a name."""
    return not _PATTERN_SIGNS.isdisjoint(name)


# A text, or whatever else is an answer.
Handler: TypeAlias = Callable[[Request], Awaitable[str | Answer]]
