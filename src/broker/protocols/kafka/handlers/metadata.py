"""Metadata, v0-13: which brokers there are, and which topics and partitions they lead.

v0 an empty list means all topics; v1 null means all, empty none; controller, rack, is_internal.
v2 cluster id; v3 throttle time; v4 allow_auto_topic_creation; v5 offline replicas (KIP-112);
v7 leader epoch (KIP-320); v8 authorized operations (KIP-430); v9 flexible; v10 topic ids (KIP-516);
v11 cluster operations move to DescribeCluster; v12 lookup by topic id; v13 top-level error.

A topic that is to be created is created before the answer, so the answer already names its leader.
"""

from functools import lru_cache

from broker.core.log import Log
from broker.core.lookup import topic_by_id, topic_by_name
from broker.core.session import Session
from broker.core.topic import INTERNAL_TOPICS, Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID
from broker.model.limits import METADATA_PARTITIONS_CACHED
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request, Response
from broker.protocols.kafka.operations import CLUSTER_OPERATIONS, NOT_ASKED, TOPIC_OPERATIONS

_EMPTY_IS_ALL = 0  # in this version
_LOOKUP_BY_ID_SINCE = 12


async def handle(request: Request, session: Session) -> Response:
    """Create what is to be created, then describe what was asked for."""
    refused = {}
    for name in _to_create(request, session):
        try:
            await session.broker.topics.get_or_create(name)
        except RequestError as error:
            refused[name] = error
    topics = [_topic(request, session, wanted, refused) for wanted in _wanted(request, session)]
    broker = session.broker
    is_cluster_asked = request.body["include_cluster_authorized_operations"]
    return {
        "brokers": [_broker(session)],
        "cluster_id": broker.cluster_id,
        "controller_id": broker.node_id,
        "topics": topics,
        "cluster_authorized_operations": CLUSTER_OPERATIONS if is_cluster_asked else NOT_ASKED,
    }


def _broker(session: Session) -> Fields:
    """The address is that of the listener that the request came to."""
    return {
        "node_id": session.broker.node_id,
        "host": session.listener_host,
        "port": session.listener_port,
        "rack": session.broker.config.get("broker.rack"),
    }


def _is_all(request: Request) -> bool:
    topics = request.body["topics"]
    return topics is None or (not topics and request.version == _EMPTY_IS_ALL)


def _is_by_id(request: Request, wanted: Fields) -> bool:
    return request.version >= _LOOKUP_BY_ID_SINCE and wanted["topic_id"] != NO_ID


def _to_create(request: Request, session: Session) -> list[str]:
    """The unknown names of the request, if asking for them creates them."""
    is_allowed = session.broker.config.flag("auto.create.topics.enable")
    if _is_all(request) or not (is_allowed and request.body["allow_auto_topic_creation"]):
        return []
    return [
        wanted["name"]
        for wanted in request.body["topics"]
        if not _is_by_id(request, wanted)
        and wanted["name"] is not None
        and wanted["name"] not in INTERNAL_TOPICS
        and session.broker.topics.get(wanted["name"]) is None
    ]


def _wanted(request: Request, session: Session) -> list[Fields]:
    """What to answer for, each topic once, in the order asked."""
    if _is_all(request):
        return [{"name": topic.name, "topic_id": NO_ID} for topic in session.broker.topics]
    return list(
        {(each["name"], each["topic_id"]): each for each in request.body["topics"]}.values()
    )


def _topic(
    request: Request, session: Session, wanted: Fields, refused: dict[str, RequestError]
) -> Fields:
    try:
        topic = _find(request, session, wanted, refused)
    except RequestError as error:
        has_null = request.version >= _LOOKUP_BY_ID_SINCE
        return {
            "error_code": errors.number(error.code),
            "name": wanted["name"] if has_null else wanted["name"] or "",
            "topic_id": wanted["topic_id"],
        }
    return _known_topic(request, session, topic)


def _find(
    request: Request, session: Session, wanted: Fields, refused: dict[str, RequestError]
) -> Topic:
    topics = session.broker.topics
    if _is_by_id(request, wanted):
        return topic_by_id(topics, wanted["topic_id"])
    if wanted["name"] is None:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    if wanted["name"] in refused:
        raise refused[wanted["name"]]
    return topic_by_name(topics, wanted["name"])


def _known_topic(request: Request, session: Session, topic: Topic) -> Fields:
    node_id = session.broker.node_id
    is_asked = request.body["include_topic_authorized_operations"]
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.is_internal,
        "partitions": [describe_partition(node_id, log) for log in topic.logs],
        "topic_authorized_operations": TOPIC_OPERATIONS if is_asked else NOT_ASKED,
    }


def describe_partition(node_id: int, log: Log) -> Fields:
    """One partition, as DescribeTopicPartitions tells it too; not to be changed."""
    return _partition(node_id, log.partition, _epoch(log), is_offline=log.is_offline)


def _epoch(log: Log) -> int:
    """While its log is recovered nobody knows; clients keep the epoch that they have."""
    return -1 if log.is_loading else log.leader_epoch


@lru_cache(METADATA_PARTITIONS_CACHED)
def _partition(node_id: int, partition: int, leader_epoch: int, *, is_offline: bool) -> Fields:
    """Every partition has one replica, this broker; it does not lead what its disk has lost.

    Partitions of that number look the same in all topics: made once, never changed.
    """
    code = ErrorCode.LEADER_NOT_AVAILABLE if is_offline else ErrorCode.NONE
    return {
        "error_code": errors.number(code),
        "partition_index": partition,
        "leader_id": -1 if is_offline else node_id,
        "leader_epoch": leader_epoch,
        "replica_nodes": [node_id],
        "isr_nodes": [] if is_offline else [node_id],
        "offline_replicas": [node_id] if is_offline else [],
    }


API = Api(3, "Metadata", range(14), handle)
