"""The types of config resources: how each is described, validated and altered."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple, Protocol

from broker.core import access
from broker.core.configs import group_configs, loggers
from broker.core.configs.broker_configs import ALL_BROKERS
from broker.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import topic_by_name
from broker.model.config import ConfigEntry
from broker.model.errors import ErrorCode, RequestError
from broker.model.own_config import ConfigChange
from broker.protocols.kafka.configs import Resource


class Kind(NamedTuple):
    """One type of resource; its functions raise RequestError for an invalid name or change."""

    describe: Callable[[Session, str], list[ConfigEntry]]
    alter: "_Alter"
    acl_type: ResourceType  # whose ACLs decide

    def check(self, session: Session, operation: Operation, name: str) -> None:
        """Raise RequestError unless a client may do something with the resource's configuration."""
        is_cluster = self.acl_type is ResourceType.CLUSTER
        access.check(session, operation, self.acl_type, CLUSTER_NAME if is_cluster else name)


class _Alter(Protocol):
    async def __call__(
        self, session: Session, name: str, change: ConfigChange, *, validates_only: bool
    ) -> None: ...


def kind(resource_type: int) -> Kind:
    """Return the functions for a resource type."""
    found = _KINDS.get(resource_type)
    if found is None:
        text = f"resource type {resource_type} has no configuration here"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    return found


def _describe_topic(session: Session, name: str) -> list[ConfigEntry]:
    return topic_by_name(session.broker.topics, name).config.describe()


async def _alter_topic(
    session: Session, name: str, change: ConfigChange, *, validates_only: bool
) -> None:
    if not name:
        text = "there is no configuration of all topics: name one, or alter the broker's"
        raise RequestError(ErrorCode.INVALID_REQUEST, text)
    topics = session.broker.topics
    topic = topic_by_name(topics, name)
    if validates_only:
        topics.plan_config(topic, change)
    else:
        await topics.alter_config(topic, change)


def _describe_broker(session: Session, name: str) -> list[ConfigEntry]:
    config = session.broker.config
    if name == ALL_BROKERS:
        return config.describe_shared()
    _check_broker(session, name)
    return config.describe()


async def _alter_broker(
    session: Session, name: str, change: ConfigChange, *, validates_only: bool
) -> None:
    if name != ALL_BROKERS:
        _check_broker(session, name)
    configs = session.broker.configs
    await (configs.plan if validates_only else configs.alter)(name, change)


def _check_broker(session: Session, name: str) -> None:
    if name != str(session.broker.node_id):
        raise RequestError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {session.broker.node_id}, but received {name:.100}:"
            " clients send this to the broker that they name",
        )


def _describe_loggers(session: Session, name: str) -> list[ConfigEntry]:
    _check_broker(session, name)
    return loggers.describe()


async def _alter_loggers(
    session: Session, name: str, change: ConfigChange, *, validates_only: bool
) -> None:
    _check_broker(session, name)
    if validates_only:
        loggers.plan(change)
    else:
        loggers.alter(change)


def _describe_group(session: Session, name: str) -> list[ConfigEntry]:
    group_configs.check_name(name)
    return session.broker.group_configs.of(name).describe()


async def _alter_group(
    session: Session, name: str, change: ConfigChange, *, validates_only: bool
) -> None:
    if validates_only:
        session.broker.group_configs.plan(name, change)
    else:
        await session.broker.group_configs.alter(name, change)


_KINDS: Mapping[int, Kind] = MappingProxyType(
    {
        Resource.TOPIC: Kind(_describe_topic, _alter_topic, ResourceType.TOPIC),
        Resource.BROKER: Kind(_describe_broker, _alter_broker, ResourceType.CLUSTER),
        Resource.BROKER_LOGGER: Kind(_describe_loggers, _alter_loggers, ResourceType.CLUSTER),
        Resource.GROUP: Kind(_describe_group, _alter_group, ResourceType.GROUP),
    }
)
