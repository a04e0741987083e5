"""CreatePartitions, v0-3. v2 flexible; v3 may be throttled (KIP-599).

The count is the new total of a topic (KIP-195). New partitions are complete before the response is
sent, so timeout_ms is not used. Every requested topic has a result: librdkafka treats an empty list
as an error.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import topic_by_name
from broker.core.topics.rules import NewPartitions
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import Api, Request, outcome
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import named_once
from broker.protocols.kafka.throttling import limits_mutations, take_mutations

if TYPE_CHECKING:
    from broker.codec import bodies

_STRICT_SINCE = 3  # it may be refused by the quota of changes


async def handle(
    request: "Request[bodies.CreatePartitionsRequest]", session: Session
) -> "bodies.CreatePartitionsResponse":
    """Add partitions to each topic; an error of one does not affect the others."""
    topics = await named_once((each["name"], each) for each in request.body["topics"])
    results: list[bodies.CreatePartitionsResponseResult] = []
    per_step = access.per_step(session, PARTITIONS_ANSWERED_PER_STEP)
    async for name, each in in_steps(topics.items(), per_step):
        refusal = None
        try:
            await _enlarge(request, session, name, each)
        except RequestError as error:
            refusal = error
        results.append({"name": name, **outcome(refusal)})
    return {"results": results}


async def _enlarge(
    request: "Request[bodies.CreatePartitionsRequest]",
    session: Session,
    name: str,
    wanted: "bodies.CreatePartitionsRequestTopic | None",
) -> None:
    access.check_topic(session, Operation.ALTER, name)
    if wanted is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
    topics = session.broker.topics
    topic = topic_by_name(topics, name)
    assigned = wanted["assignments"]
    new = NewPartitions(
        wanted["count"],
        None if assigned is None else [each["broker_ids"] for each in assigned],
    )
    if request.body["validate_only"] or limits_mutations(session):
        topics.plan_partitions(topic, new)
        added = wanted["count"] - topic.partition_count
        take_mutations(session, added, is_strict=request.version >= _STRICT_SINCE)
    if not request.body["validate_only"]:
        await topics.add_partitions(topic, new)


API = Api(37, "CreatePartitions", range(4), handle, on_each(Operation.ALTER, ResourceType.TOPIC))
