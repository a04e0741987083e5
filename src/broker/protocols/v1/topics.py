"""Lookup of topics, partition counts and the group coordinator by a request's names."""

from typing import Final

from broker.core import access
from broker.core.forwarding import check_coordinated
from broker.core.groups.coordinator import GroupCoordinator
from broker.core.logs.log import Log
from broker.core.topics.rules import check_name
from broker.core.topics.topic import INTERNAL_TOPICS, Topic
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.protocols.v1.commands import Request
from broker.protocols.v1.errors import bad_request

PARTITIONS: Final = 3  # of an auto-created topic, as in the original


async def topic_or_new(request: Request, name: str) -> Topic:
    """Return the topic of that name; create it if `auto.create.topics.enable` allows it.

    Raises:
        RefusedError: the topic does not exist and may not be created.
        RequestError: the name is invalid, or the creation failed.
    """
    broker = request.session.broker
    topic = broker.topics.get(name)
    if topic is not None:
        return topic
    access.check_creation(request.session, name)
    check_name(name)
    if name in INTERNAL_TOPICS or not broker.config.flag("auto.create.topics.enable"):
        raise bad_request(f"topic not found: {name}")
    return await broker.topics.get_or_create(name, PARTITIONS)


def partition_count(request: Request, name: str) -> int:
    """Return the number of partitions that a topic has, or would be auto-created with."""
    topic = request.session.broker.topics.get(name)
    return PARTITIONS if topic is None else topic.partition_count


def last_readable(log: Log) -> int:
    """Return V1's high watermark: the offset of the last readable record, or -1 for none."""
    return log.last_stable_offset - 1


async def groups_of(request: Request, group: str) -> GroupCoordinator:
    """Return the coordinator of a group; the first call creates `__consumer_offsets`.

    Raises:
        ElsewhereError: another broker is the group's coordinator.
        RequestError: COORDINATOR_NOT_AVAILABLE, the topic could not be created.
    """
    broker = request.session.broker
    try:
        await broker.topics.offsets_topic()
    except (RequestError, StorageError) as error:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
    check_coordinated(request.session, group)
    return broker.groups
