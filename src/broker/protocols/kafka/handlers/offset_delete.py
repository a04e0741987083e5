"""OffsetDelete, v0-0: delete offsets of topics without a subscribed member (KIP-496)."""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.groups.commands.offsets import DeleteOffsetsRequest
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import check_exists, topic_by_name
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP, PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, unique
from broker.protocols.kafka.operations import on_each, on_group
from broker.protocols.kafka.partitions import rows_by_topic, topics_of

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.OffsetDeleteRequest]", session: Session
) -> "bodies.OffsetDeleteResponse":
    """Delete the offsets of existing partitions; the others get an error each."""
    topics = request.body["topics"]
    places = await unique(
        (topic["name"], each["partition_index"]) for topic in topics for each in topic["partitions"]
    )
    existing: dict[str, list[int]] = {}
    codes: list[ErrorCode] = []  # of `places`
    async for name, partition in in_steps(places, PARTITIONS_ANSWERED_PER_STEP):
        codes.append(_error(session, name, partition))
        if codes[-1] is ErrorCode.NONE:
            existing.setdefault(name, []).append(partition)
    asked = {
        name: tuple(partitions)
        async for name, partitions in in_steps(existing.items(), NAMES_READ_PER_STEP)
    }
    response = await session.broker.groups.delete_offsets(
        DeleteOffsetsRequest(request.body["group_id"], asked)
    )
    if response.error is not ErrorCode.NONE:
        return {"error_code": errors.number(response.error), "topics": []}
    answers: dict[str, list[bodies.OffsetDeleteResponsePartition]] = await rows_by_topic(
        topic["name"] for topic in topics
    )
    both = zip(places, codes, strict=True)
    async for (name, partition), code in in_steps(both, NAMES_READ_PER_STEP):
        of_topic = response.topics.get(name, ErrorCode.NONE)
        answers[name].append(_partition(partition, code, of_topic))
    return {
        "error_code": 0,
        "topics": await topics_of(answers, lambda name, its: {"name": name, "partitions": its}),
    }


def _error(session: Session, topic: str, partition: int) -> ErrorCode:
    try:
        access.check_topic(session, Operation.READ, topic)
        check_exists(topic_by_name(session.broker.topics, topic), partition)
    except RequestError as error:
        if error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return error.code
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


def _partition(
    partition: int, existence: ErrorCode, of_topic: ErrorCode
) -> "bodies.OffsetDeleteResponsePartition":
    code = of_topic if existence is ErrorCode.NONE else existence
    return {"partition_index": partition, "error_code": errors.number(code)}


API = Api(
    47,
    "OffsetDelete",
    range(1),
    handle,
    (on_group(Operation.DELETE), *on_each(Operation.READ, ResourceType.TOPIC)),
)
