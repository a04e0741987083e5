"""Metadata, v0-13: brokers, topics, and the leaders of partitions.

v0 an empty list means all topics; v1 null means all, empty none; controller, rack, is_internal.
v2 cluster id; v3 throttle time; v4 allow_auto_topic_creation; v5 offline replicas (KIP-112);
v7 leader epoch (KIP-320); v8 authorized operations (KIP-430); v9 flexible; v10 topic ids (KIP-516);
v11 cluster operations move to DescribeCluster; v12 lookup by topic id; v13 top-level error.

Topics are auto-created before the response is built, so it has their leaders.

The response is built in steps. A topic that is deleted between two of them is left out if all
topics are requested, otherwise it is unknown or described as it was; each partition is described as
it was in its step. The response with all topics is built once for all clients with the same API
version, and cached until topics or the states of their logs change.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.cluster.records import NO_LEADER
from broker.core.cluster_view import Leadership
from broker.core.scheduling.steps import in_parts, in_steps
from broker.core.security.acls import CLUSTER_NAME, Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.topic import INTERNAL_TOPICS, Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID
from broker.model.limits import METADATA_PARTITIONS_CACHED, PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, Response
from broker.protocols.kafka.bodies import encoded
from broker.protocols.kafka.operations import authorized, on_each
from broker.protocols.kafka.throttling import take_mutations

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from broker.codec import bodies

    _Partition = tuple[int, Leadership]

_KEY = 3
_EMPTY_IS_ALL = 0  # the API version in which an empty list means all topics
_LOOKUP_BY_ID_SINCE = 12


async def handle(
    request: "Request[bodies.MetadataRequest]", session: Session
) -> "Response[bodies.MetadataResponse]":
    """Auto-create topics if allowed, then describe the requested topics."""
    if _is_all(request):
        return await _all(request, session)
    wanted = await _wanted(request)
    refused = await _create(request, session, wanted)
    rows = _named_topics(request, session, wanted, refused)
    per_step = access.per_step(session, PARTITIONS_ANSWERED_PER_STEP)
    return await _fields(request, session, rows, per_step)


async def _all(request: "Request[bodies.MetadataRequest]", session: Session) -> bytes:
    broker = session.broker
    key = (
        "Metadata",
        request.version,
        request.body["include_cluster_authorized_operations"],
        request.body["include_topic_authorized_operations"],
        session.reached,
        access.view(session),
    )

    async def make() -> bytes:
        rows = (row for topic in broker.topics for row in _shown_topic(request, session, topic))
        return await encoded(_KEY, request.version, await _fields(request, session, rows))

    return await broker.response_cache.get(key, make)


async def _fields(
    request: "Request[bodies.MetadataRequest]",
    session: Session,
    rows: "Iterable[bodies.MetadataResponseTopic | _Partition | None]",
    per_step: int = PARTITIONS_ANSWERED_PER_STEP,
) -> "bodies.MetadataResponse":
    """Return the response with topics, each followed by its partitions in `rows`; None is none."""
    broker = session.broker
    topics: list[bodies.MetadataResponseTopic] = []
    async for part in in_parts(rows, per_step):
        for row in part:
            if isinstance(row, tuple):
                topics[-1]["partitions"].append(describe_partition(*row))
            elif row is not None:
                topics.append(row)
    return {
        "brokers": [
            {"node_id": each.broker_id, "host": each.host, "port": each.port, "rack": each.rack}
            for each in broker.cluster.brokers(*session.reached)
        ],
        "cluster_id": broker.cluster_id,
        "controller_id": broker.cluster.controller_id,
        "topics": topics,
        "cluster_authorized_operations": authorized(
            session,
            ResourceType.CLUSTER,
            CLUSTER_NAME,
            is_asked=request.body["include_cluster_authorized_operations"],
        ),
    }


def _is_all(request: "Request[bodies.MetadataRequest]") -> bool:
    topics = request.body["topics"]
    return topics is None or (not topics and request.version == _EMPTY_IS_ALL)


def _is_by_id(
    request: "Request[bodies.MetadataRequest]", wanted: "bodies.MetadataRequestTopic"
) -> bool:
    return request.version >= _LOOKUP_BY_ID_SINCE and wanted["topic_id"] != NO_ID


async def _wanted(
    request: "Request[bodies.MetadataRequest]",
) -> "list[bodies.MetadataRequestTopic]":
    """Return the requested topics without duplicates, in request order."""
    wanted: dict[str | bytes | None, bodies.MetadataRequestTopic] = {}
    async for each in in_steps(request.body["topics"] or (), PARTITIONS_ANSWERED_PER_STEP):
        wanted[each["topic_id"] if _is_by_id(request, each) else each["name"]] = each
    return list(wanted.values())


async def _create(
    request: "Request[bodies.MetadataRequest]",
    session: Session,
    wanted: "list[bodies.MetadataRequestTopic]",
) -> dict[str, RequestError]:
    """Auto-create missing topics if allowed; return the errors of those that were not created."""
    refused: dict[str, RequestError] = {}
    is_allowed = session.broker.config.flag("auto.create.topics.enable")
    if not (is_allowed and request.body["allow_auto_topic_creation"]):
        return refused
    topics = session.broker.topics
    per_step = access.per_step(session, PARTITIONS_ANSWERED_PER_STEP)
    async for each in in_steps(wanted, per_step):
        name = each["name"]
        if name is None or _is_by_id(request, each):
            continue
        if not access.may(session, Operation.DESCRIBE, ResourceType.TOPIC, name):
            continue  # it is refused below, as if it existed
        if name not in INTERNAL_TOPICS and topics.get(name) is None:
            try:
                access.check_creation(session, name)
                take_mutations(
                    session, session.broker.config.integer("num.partitions"), is_strict=True
                )
                await topics.get_or_create(name)
            except RequestError as error:
                # No client expects the error of the quota here: the topic does not exist yet.
                is_throttled = error.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
                unknown = RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                refused[name] = unknown if is_throttled else error
    return refused


def _named_topics(
    request: "Request[bodies.MetadataRequest]",
    session: Session,
    wanted: "list[bodies.MetadataRequestTopic]",
    refused: dict[str, RequestError],
) -> "Iterator[bodies.MetadataResponseTopic | _Partition]":
    for each in wanted:
        try:
            topic = _find(request, session, each, refused)
        except RequestError as error:
            has_null = request.version >= _LOOKUP_BY_ID_SINCE
            refusal: bodies.MetadataResponseTopic = {
                "error_code": errors.number(error.code),
                "name": each["name"] if has_null else each["name"] or "",
                "topic_id": each["topic_id"],
                "partitions": [],
            }
            yield refusal
        else:
            yield from _known_topic(request, session, topic)


def _find(
    request: "Request[bodies.MetadataRequest]",
    session: Session,
    wanted: "bodies.MetadataRequestTopic",
    refused: dict[str, RequestError],
) -> Topic:
    if _is_by_id(request, wanted):
        return access.topic_of_id(session, Operation.DESCRIBE, wanted["topic_id"])
    if wanted["name"] is None:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    if wanted["name"] in refused:
        raise refused[wanted["name"]]
    return access.topic_named(session, Operation.DESCRIBE, wanted["name"])


def _shown_topic(
    request: "Request[bodies.MetadataRequest]", session: Session, topic: Topic
) -> "Iterator[bodies.MetadataResponseTopic | _Partition | None]":
    """Yield a topic and its partitions; None for one that is hidden, which costs a step, too."""
    if access.may_describe(session, topic):
        yield from _known_topic(request, session, topic)
    else:
        yield None


def _known_topic(
    request: "Request[bodies.MetadataRequest]", session: Session, topic: Topic
) -> "Iterator[bodies.MetadataResponseTopic | _Partition]":
    yield {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [],
        "topic_authorized_operations": authorized(
            session,
            ResourceType.TOPIC,
            topic.name,
            is_asked=request.body["include_topic_authorized_operations"],
        ),
    }
    leadership = session.broker.cluster.leadership
    for number in range(topic.partition_count):
        yield number, leadership(topic, number)


@lru_cache(METADATA_PARTITIONS_CACHED)
def describe_partition(
    partition: int, leadership: Leadership
) -> "bodies.MetadataResponsePartition":
    """Describe a partition, for DescribeTopicPartitions too; the result must not be modified.

    Partitions with the same number are often equal in all topics, so the result is cached and
    shared.
    """
    has_leader = leadership.leader != NO_LEADER
    code = ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE
    return {
        "error_code": errors.number(code),
        "partition_index": partition,
        "leader_id": leadership.leader,
        "leader_epoch": leadership.leader_epoch,
        "replica_nodes": list(leadership.replicas),
        "isr_nodes": list(leadership.isr),
        "offline_replicas": list(leadership.offline),
    }


API = Api(
    _KEY,
    "Metadata",
    range(14),
    handle,
    (
        *on_each(Operation.DESCRIBE, ResourceType.TOPIC),
        *on_each(Operation.CREATE, ResourceType.TOPIC, ResourceType.CLUSTER),
    ),
)
