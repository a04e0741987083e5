"""DescribeTopicPartitions, v0-0: topics by name, some partitions at a time (KIP-966).

Topics are sorted by name, independent of the request, so that the cursor, the first partition that
is not described yet, determines the rest. No topics means all. A response ends after the limit of
partitions of the client or of the broker.

The response is built in steps: a topic that is deleted between two of them is unknown, or left out
if all topics are requested; each partition is described as it was in its step.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import ascending, in_parts
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID
from broker.model.limits import (
    DESCRIBED_PARTITIONS_MAX,
    NAMES_READ_PER_STEP,
    PARTITIONS_ANSWERED_PER_STEP,
)
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.handlers.metadata import describe_partition
from broker.protocols.kafka.operations import authorized, on_each

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.core.cluster_view import Leadership


async def handle(
    request: "Request[bodies.DescribeTopicPartitionsRequest]", session: Session
) -> "bodies.DescribeTopicPartitionsResponse":
    """Describe topics from the cursor on, up to the limit."""
    cursor = request.body["cursor"]
    if cursor and cursor["partition_index"] < 0:
        error = RequestError(ErrorCode.INVALID_REQUEST)
        return {"topics": [_refused(each["name"], error) for each in request.body["topics"]]}
    limit = request.body["response_partition_limit"]
    limit = min(limit, DESCRIBED_PARTITIONS_MAX) if limit > 0 else DESCRIBED_PARTITIONS_MAX
    page = _Page(limit)
    topics: list[bodies.DescribeTopicPartitionsResponseTopic] = []
    rows = page.rows(session, await _wanted(request, session))
    async for part in in_parts(rows, access.per_step(session, PARTITIONS_ANSWERED_PER_STEP)):
        for row in part:
            if isinstance(row, tuple):
                topics[-1]["partitions"].append(_partition(*row))
            elif row is not None:
                topics.append(row)
    return {"topics": topics, "next_cursor": page.next_cursor}


class _Page:
    """The partitions of one response, and the cursor of the next one."""

    def __init__(self, limit: int) -> None:
        """Begin with a limit of partitions."""
        self.next_cursor: bodies.DescribeTopicPartitionsResponseNextCursor | None = None
        self._partitions_left = limit

    def rows(
        self, session: Session, wanted: Iterable[tuple[str, int] | None]
    ) -> "Iterator[bodies.DescribeTopicPartitionsResponseTopic | tuple[int, Leadership] | None]":
        """Yield each topic, followed by its partitions from the first one on; None is none."""
        for each in wanted:
            if each is None:
                yield None
                continue
            name, first = each
            if self._partitions_left == 0:
                self.next_cursor = _cursor(name, first)
                return
            try:
                topic = access.topic_named(session, Operation.DESCRIBE, name)
            except RequestError as error:
                yield _refused(name, error)
                continue
            count = topic.partition_count
            last = min(count, first + self._partitions_left)
            self._partitions_left -= max(last - first, 0)
            yield _topic(session, topic)
            leadership = session.broker.cluster.leadership
            for number in range(first, last):
                yield number, leadership(topic, number)
            if last < count:
                self.next_cursor = _cursor(name, last)
                return


async def _wanted(
    request: "Request[bodies.DescribeTopicPartitionsRequest]", session: Session
) -> Iterator[tuple[str, int] | None]:
    """Return the topics from the cursor on, sorted, each with its first partition.

    None is in the place of one that is hidden, so that it is counted among what a step does.
    """
    cursor = request.body["cursor"]
    start, partition = (cursor["topic_name"], cursor["partition_index"]) if cursor else ("", 0)
    named = request.body["topics"]
    names: Iterator[str | None]
    if named:
        names = await ascending((each["name"] for each in named), NAMES_READ_PER_STEP)
    else:
        names = (
            topic.name if access.may_describe(session, topic) else None
            for topic in session.broker.topics.from_name(start)
        )
    return (
        None if name is None else (name, partition if name == start else 0)
        for name in names
        if name is None or name >= start
    )


def _cursor(name: str, partition: int) -> "bodies.DescribeTopicPartitionsResponseNextCursor":
    return {"topic_name": name, "partition_index": partition}


def _topic(session: Session, topic: Topic) -> "bodies.DescribeTopicPartitionsResponseTopic":
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [],
        "topic_authorized_operations": authorized(
            session, ResourceType.TOPIC, topic.name, is_asked=True
        ),
    }


def _partition(
    number: int, leadership: "Leadership"
) -> "bodies.DescribeTopicPartitionsResponsePartition":
    found = describe_partition(number, leadership)
    # Null would be valid for both lists, but the Java client fails on it.
    return {
        **found,
        "offline_replicas": found["offline_replicas"],
        "eligible_leader_replicas": list(leadership.elr),
        "last_known_elr": list(leadership.last_known),
    }


def _refused(name: str, error: RequestError) -> "bodies.DescribeTopicPartitionsResponseTopic":
    return {
        "error_code": errors.number(error.code),
        "name": name,
        "topic_id": NO_ID,
        "is_internal": False,
        "partitions": [],
    }


API = Api(
    75, "DescribeTopicPartitions", range(1), handle, on_each(Operation.DESCRIBE, ResourceType.TOPIC)
)
