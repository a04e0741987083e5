"""OffsetForLeaderEpoch, v0-4. v1 leader epoch; v2 current leader epoch; v3 replica; v4 flexible.

The end offset of a leader epoch: a consumer compares it with its position, to detect that the log
was truncated below it (KIP-320). For an epoch without records the result is the largest epoch
before it, or -1.

A broker asks as a replica: for the end of the log, led or followed, before an unclean election
(core/replica_ends.py).
"""

from functools import partial
from typing import TYPE_CHECKING

from broker.core import access
from broker.core.cluster_view import log_at_epoch
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import topic_by_name
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import answer_partitions

if TYPE_CHECKING:
    from broker.codec import bodies

_UNKNOWN = (-1, -1)
_CONSUMER = -1


async def handle(
    request: "Request[bodies.OffsetForLeaderEpochRequest]", session: Session
) -> "bodies.OffsetForLeaderEpochResponse":
    """Look up each partition."""
    topics = ((topic["topic"], topic["partitions"]) for topic in request.body["topics"])
    is_replica = request.body.get("replica_id", _CONSUMER) >= 0
    answer = partial(_answer_replica if is_replica else _answer, session)
    return {
        "topics": await answer_partitions(
            topics, answer, lambda name, its: {"topic": name, "partitions": its}
        )
    }


def _answer(
    session: Session, name: str, wanted: "bodies.OffsetForLeaderEpochRequestPartition"
) -> "bodies.OffsetForLeaderEpochResponsePartition":
    code = 0
    epoch, end = _UNKNOWN
    try:
        if not access.may_cluster(session, Operation.CLUSTER_ACTION):
            access.check_topic(session, Operation.DESCRIBE, name)
        topic = topic_by_name(session.broker.topics, name)
        cluster, known = session.broker.cluster, wanted["current_leader_epoch"]
        log = log_at_epoch(cluster, topic, wanted["partition"], known)
        epoch, end = log.epoch_end(wanted["leader_epoch"])
    except RequestError as error:
        code = errors.number(error.code)
    return _shown(wanted, code, epoch, end)


def _answer_replica(
    session: Session, name: str, wanted: "bodies.OffsetForLeaderEpochRequestPartition"
) -> "bodies.OffsetForLeaderEpochResponsePartition":
    if not access.may_cluster(session, Operation.CLUSTER_ACTION):
        code = errors.number(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return _shown(wanted, code, *_UNKNOWN)
    topic = session.broker.topics.get(name)
    log = None if topic is None else topic.held_log(wanted["partition"])
    if log is None or log.is_loading or log.is_offline:
        code = errors.number(ErrorCode.REPLICA_NOT_AVAILABLE)
        return _shown(wanted, code, *_UNKNOWN)
    if wanted["leader_epoch"] >= log.leader_epoch:
        return _shown(wanted, 0, log.leader_epoch, log.log_end_offset)
    return _shown(wanted, 0, *log.epoch_end(wanted["leader_epoch"]))


def _shown(
    wanted: "bodies.OffsetForLeaderEpochRequestPartition", code: int, epoch: int, end: int
) -> "bodies.OffsetForLeaderEpochResponsePartition":
    return {
        "error_code": code,
        "partition": wanted["partition"],
        "leader_epoch": epoch,
        "end_offset": end,
    }


API = Api(
    23,
    "OffsetForLeaderEpoch",
    range(5),
    handle,
    (
        *on_each(Operation.DESCRIBE, ResourceType.TOPIC),
        *on_each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
