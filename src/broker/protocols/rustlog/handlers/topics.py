"""CreateTopic, ListTopics, DescribeTopic and DescribePartition.

The high watermark that responses show is the last stable offset, where readers of committed records
stop. Topic names follow Kafka's rules; internal topics are not listed.
"""

import logging
from typing import Final

from broker.core import access
from broker.core.forwarding import answered_here
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.topics.rules import NewTopic
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.model.limits import (
    PARTITIONS_ANSWERED_PER_STEP,
    PARTITIONS_PER_TOPIC_MAX,
    RUSTLOG_MESSAGE_BYTES_MAX,
)
from broker.protocols.rustlog.call import Call
from broker.protocols.rustlog.errors import Failure, RefusalError, refusal
from broker.protocols.rustlog.forwarding import ends_elsewhere
from broker.protocols.rustlog.handlers.partitions import log_in_service
from broker.protocols.rustlog.messages import (
    Created,
    CreateTopic,
    DescribePartition,
    DescribeTopic,
    ListTopics,
    PartitionEnd,
    TopicEnds,
    TopicList,
)

_log = logging.getLogger(__name__)
_DISK: Final = "the disk has failed or is full"
# A record may fill a frame; Kafka's default for max.message.bytes is 1 MiB.
_CONFIG = {"max.message.bytes": str(RUSTLOG_MESSAGE_BYTES_MAX)}


async def create(request: CreateTopic, call: Call) -> Created:
    """Create a topic; it can be written and read once this returns."""
    if not 1 <= request.partitions <= PARTITIONS_PER_TOPIC_MAX:
        raise RefusalError(Failure.PARTITION_COUNT, count=request.partitions)
    try:
        access.check_creation(call.session, request.topic)
        await call.broker.topics.create(NewTopic(request.topic, request.partitions, config=_CONFIG))
    except RequestError as error:
        if error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            raise RefusalError(Failure.TOPIC_EXISTS, topic=request.topic) from None
        raise refusal(Failure.CREATE, error) from None
    except StorageError as error:
        _log.warning("topic not created: topic=%s error=%s", request.topic, error)
        raise RefusalError(Failure.CREATE, reason=_DISK) from None
    return Created()


async def list_all(_: ListTopics, call: Call) -> TopicList:
    """Return all topics with their numbers of partitions, sorted by the bytes of their names.

    The list is made in steps: a topic that is deleted between two steps is left out.
    """
    found: list[tuple[str, int]] = []
    async for part in in_parts(call.broker.topics, PARTITIONS_ANSWERED_PER_STEP):
        found += [
            (each.name, len(each.logs))
            for each in part
            if not each.is_internal and access.may_describe(call.session, each)
        ]
    return TopicList(found)


async def describe(request: DescribeTopic, call: Call) -> TopicEnds:
    """Return the end offset of each partition."""
    topic = call.broker.topics.get(request.topic)
    if topic is None:
        raise RefusalError(Failure.DESCRIBE_TOPIC, reason=f"Topic '{request.topic}' not found")
    ends = []
    try:
        elsewhere = await ends_elsewhere(call, topic)
    except RequestError as error:
        raise refusal(Failure.DESCRIBE_TOPIC, error) from None
    numbers = answered_here(call.session, topic)
    async for number in in_steps(numbers, PARTITIONS_ANSWERED_PER_STEP):
        log = log_in_service(call, topic, number, Failure.DESCRIBE_TOPIC)
        ends.append((number, log.last_stable_offset))
    return TopicEnds(topic.name, topic.partition_count, sorted(ends + elsewhere))


async def describe_partition(request: DescribePartition, call: Call) -> PartitionEnd:
    """Return the end offset of a partition."""
    topic = call.broker.topics.get(request.topic)
    if topic is None or not topic.has_partition(request.partition):
        text = f"Partition {request.partition} not found in topic '{request.topic}'"
        raise RefusalError(Failure.DESCRIBE_PARTITION, reason=text)
    log = log_in_service(call, topic, request.partition, Failure.DESCRIBE_PARTITION)
    return PartitionEnd(topic.name, request.partition, log.last_stable_offset)
