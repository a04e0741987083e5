"""DeleteTopics, v0-6. v1 throttle time; v3 TOPIC_DELETION_DISABLED; v4 flexible.

v5 error message, may be throttled; v6 by name or by id (KIP-516). Internal topics cannot be
deleted; groups are deleted with DeleteGroups.
"""

from collections import Counter
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import topic_by_id
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID
from broker.model.limits import NAMES_READ_PER_STEP, PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.throttling import take_mutations

if TYPE_CHECKING:
    from broker.codec import bodies

_DISABLED_SINCE = 3
_STRICT_SINCE = 5  # it may be refused by the quota of changes
_BY_ID_SINCE = 6


async def handle(
    request: "Request[bodies.DeleteTopicsRequest]", session: Session
) -> "bodies.DeleteTopicsResponse":
    """Delete each topic, by its id if the request has one."""
    if request.version >= _BY_ID_SINCE:
        wanted = [(each["name"], each["topic_id"]) for each in request.body["topics"]]
    else:
        wanted = [(name, NO_ID) for name in request.body["topic_names"]]
    count: Counter[tuple[str | None, bytes]] = Counter()
    async for part in in_parts(wanted, NAMES_READ_PER_STEP):
        count.update(part)
    responses: list[bodies.DeleteTopicsResponseResponse] = []
    async for (name, topic_id), times in in_steps(count.items(), PARTITIONS_ANSWERED_PER_STEP):
        try:
            _check_request(request, session, times)
            topic = _find(session, name, topic_id)
            is_strict = request.version >= _STRICT_SINCE
            take_mutations(session, topic.partition_count, is_strict=is_strict)
            await session.broker.topics.delete(topic)
            responses.append({"name": topic.name, "topic_id": topic.topic_id, "error_code": 0})
        except RequestError as error:
            refused = refuse_with_message(error)
            responses.append({"name": name, "topic_id": topic_id, **refused})
    return {"responses": responses}


def _check_request(
    request: "Request[bodies.DeleteTopicsRequest]", session: Session, times: int
) -> None:
    if times > 1:
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
    if not session.broker.config.flag("delete.topic.enable"):
        is_known = request.version >= _DISABLED_SINCE
        raise RequestError(
            ErrorCode.TOPIC_DELETION_DISABLED if is_known else ErrorCode.INVALID_REQUEST
        )


def _find(session: Session, name: str | None, topic_id: bytes) -> Topic:
    topics = session.broker.topics
    if name is None:
        topic = topic_by_id(topics, topic_id)
        access.check_topic(session, Operation.DELETE, topic.name)
    elif topic_id != NO_ID:
        raise RequestError(ErrorCode.INVALID_REQUEST, "give the name or the id, not both")
    else:
        topic = access.topic_named(session, Operation.DELETE, name)
    if topic.is_internal:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"'{topic.name}' belongs to the broker")
    return topic


API = Api(20, "DeleteTopics", range(7), handle, on_each(Operation.DELETE, ResourceType.TOPIC))
