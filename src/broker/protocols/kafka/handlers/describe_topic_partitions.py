"""DescribeTopicPartitions, v0-0: topics by name, some partitions at a time (KIP-966).

Topics stand in the order of their names, whatever the order of the request, so that a cursor, the
first partition that is not told yet, says which are left. No topics means all. An answer ends after
as many partitions as the client or the broker allows.
"""

from collections.abc import Iterator
from itertools import islice

from broker.core.lookup import topic_by_name
from broker.core.session import Session
from broker.core.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID
from broker.model.limits import DESCRIBED_PARTITIONS_MAX
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request
from broker.protocols.kafka.handlers.metadata import describe_partition
from broker.protocols.kafka.operations import TOPIC_OPERATIONS

# Who else could lead without losing records; Java's client fails on the null that it may be.
_NO_OTHERS: Fields = {"eligible_leader_replicas": [], "last_known_elr": []}


def handle(request: Request, session: Session) -> Fields:
    """Describe topics from the cursor on, until the limit."""
    cursor = request.body["cursor"]
    if cursor and cursor["partition_index"] < 0:
        error = RequestError(ErrorCode.INVALID_REQUEST)
        return {"topics": [_refused(each["name"], error) for each in request.body["topics"]]}
    room = request.body["response_partition_limit"]
    room = min(room, DESCRIBED_PARTITIONS_MAX) if room > 0 else DESCRIBED_PARTITIONS_MAX
    topics: list[Fields] = []
    for name, first in _wanted(request, session):
        if room == 0:
            return {"topics": topics, "next_cursor": _cursor(name, first)}
        try:
            topic = topic_by_name(session.broker.topics, name)
        except RequestError as error:
            topics.append(_refused(name, error))
            continue
        topics.append(_topic(session, topic, first, room))
        room -= len(topics[-1]["partitions"])
        told = first + len(topics[-1]["partitions"])
        if told < len(topic.logs):
            return {"topics": topics, "next_cursor": _cursor(name, told)}
    return {"topics": topics, "next_cursor": None}


def _wanted(request: Request, session: Session) -> Iterator[tuple[str, int]]:
    """The topics that are left, in order, each with its first partition that is."""
    cursor = request.body["cursor"]
    start, partition = (cursor["topic_name"], cursor["partition_index"]) if cursor else ("", 0)
    named = request.body["topics"]
    names = [each["name"] for each in named] if named else [t.name for t in session.broker.topics]
    for name in sorted(set(names)):
        if name >= start:
            yield name, partition if name == start else 0


def _cursor(name: str, partition: int) -> Fields:
    return {"topic_name": name, "partition_index": partition}


def _topic(session: Session, topic: Topic, first: int, room: int) -> Fields:
    logs = islice(topic.logs, first, first + room)
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [
            {**describe_partition(session.broker.node_id, log), **_NO_OTHERS} for log in logs
        ],
        "topic_authorized_operations": TOPIC_OPERATIONS,
    }


def _refused(name: str, error: RequestError) -> Fields:
    return {"error_code": errors.number(error.code), "name": name, "topic_id": NO_ID}


API = Api(75, "DescribeTopicPartitions", range(1), handle)
