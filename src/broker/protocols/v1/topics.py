"""From the names in a request to what the broker has of them, made where V1 makes it."""

from typing import Final

from broker.core.groups.coordinator import GroupCoordinator
from broker.core.log import Log
from broker.core.topic import INTERNAL_TOPICS, Topic
from broker.core.topic_rules import check_name
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.protocols.v1.commands import Request
from broker.protocols.v1.errors import bad_request

PARTITIONS: Final = 3  # of a topic that is made because somebody names it


async def topic_or_new(request: Request, name: str) -> Topic:
    """The topic of that name, created where the broker may do that."""
    broker = request.session.broker
    topic = broker.topics.get(name)
    if topic is not None:
        return topic
    check_name(name)
    if name in INTERNAL_TOPICS or not broker.config.flag("auto.create.topics.enable"):
        raise bad_request(f"topic not found: {name}")
    return await broker.topics.get_or_create(name, PARTITIONS)


def partition_count(request: Request, name: str) -> int:
    """How many partitions a topic has, or would be made with."""
    topic = request.session.broker.topics.get(name)
    return PARTITIONS if topic is None else topic.partition_count


def last_readable(log: Log) -> int:
    """V1's high watermark: the offset of the last record that can be read, -1 for none."""
    return log.last_stable_offset - 1


async def groups_of(request: Request) -> GroupCoordinator:
    """The coordinator of every group; whoever comes first has the topic made that they live in."""
    broker = request.session.broker
    try:
        await broker.topics.offsets_topic()
    except (RequestError, StorageError) as error:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error)) from error
    return broker.groups
