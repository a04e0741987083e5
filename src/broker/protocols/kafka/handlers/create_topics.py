"""CreateTopics, v0-7. v1 validate_only, error message; v2 throttle time; v4 -1 means the default.

v5 flexible, the response describes the new topic (KIP-525); v6 may be throttled; v7 topic id. A
topic is complete before the response is sent, so timeout_ms is not used.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.rules import NewTopic, Plan
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID
from broker.model.limits import CONFIGS_DESCRIBED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, message
from broker.protocols.kafka.configs import entry_fields
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import named_once
from broker.protocols.kafka.throttling import limits_mutations, take_mutations

if TYPE_CHECKING:
    from broker.codec import bodies

_STRICT_SINCE = 6  # it may be refused by the quota of changes


async def handle(
    request: "Request[bodies.CreateTopicsRequest]", session: Session
) -> "bodies.CreateTopicsResponse":
    """Create each topic; an error of one does not affect the others."""
    topics = await named_once((each["name"], each) for each in request.body["topics"])
    results = []
    async for name, each in in_steps(topics.items(), CONFIGS_DESCRIBED_PER_STEP):
        try:
            results.append(await _create(request, session, name, each))
        except RequestError as error:
            results.append(_refused(name, error))
    return {"topics": results}


async def _create(
    request: "Request[bodies.CreateTopicsRequest]",
    session: Session,
    name: str,
    wanted: "bodies.CreateTopicsRequestTopic | None",
) -> "bodies.CreateTopicsResponseTopic":
    access.check_creation(session, name)
    if wanted is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names this topic twice")
    topics = session.broker.topics
    new = NewTopic(
        wanted["name"],
        wanted["num_partitions"],
        wanted["replication_factor"],
        _assignments(wanted["assignments"]),
        {each["name"]: each["value"] for each in wanted["configs"]},
    )
    if request.body["validate_only"] or limits_mutations(session):
        plan = topics.plan(new)
        take_mutations(session, plan.partitions, is_strict=request.version >= _STRICT_SINCE)
        if request.body["validate_only"]:
            return _created(session, plan, NO_ID)
    topic = await topics.create(new)
    replicas = session.broker.cluster.leadership(topic, 0).replicas
    made = Plan(topic.name, topic.partition_count, topic.config, len(replicas))
    return _created(session, made, topic.topic_id)


def _assignments(wanted: "list[bodies.CreateTopicsRequestAssignment]") -> dict[int, list[int]]:
    assignments = {each["partition_index"]: each["broker_ids"] for each in wanted}
    if len(assignments) < len(wanted):
        text = "the assignment names a partition twice"
        raise RequestError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, text)
    return assignments


def _created(session: Session, plan: Plan, topic_id: bytes) -> "bodies.CreateTopicsResponseTopic":
    if not access.may(session, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, plan.name):
        return {
            "name": plan.name,
            "topic_id": topic_id,
            "error_code": 0,
            "error_message": None,
            "topic_config_error_code": errors.number(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            "configs": None,
        }
    return {
        "name": plan.name,
        "topic_id": topic_id,
        "error_code": 0,
        "error_message": None,
        "num_partitions": plan.partitions,
        "replication_factor": plan.factor,
        "configs": [entry_fields(entry) for entry in plan.config.describe()],
    }


def _refused(name: str, error: RequestError) -> "bodies.CreateTopicsResponseTopic":
    return {
        "name": name,
        "topic_id": NO_ID,
        "error_code": errors.number(error.code),
        "error_message": message(error),
        "configs": None,
    }


API = Api(
    19,
    "CreateTopics",
    range(8),
    handle,
    (
        *on_each(Operation.CREATE, ResourceType.CLUSTER, ResourceType.TOPIC),
        *on_each(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
    ),
)
