"""DescribeQuorum, v0-2. v1 times of the last fetch (KIP-836); v2 messages, directories, nodes.

The metadata store is the quorum's log: each change has one offset, its revision, and is committed
at once. The voters are the brokers that may be the controller: all. The leader is the controller,
with the controller epoch. Each broker reads the store itself and tells nobody how far it is, so an
answer has the revision of the broker that gives it for all, and times for that broker alone.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.core.cluster.records import NO_LEADER
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.operations import on_cluster
from broker.protocols.kafka.partitions import answer_partitions

if TYPE_CHECKING:
    from broker.codec import bodies

_TOPIC = "__cluster_metadata"
_PARTITION = 0
_INT32_MAX = (1 << 31) - 1
_LISTENER = "PLAINTEXT"  # the only security protocol
_NOT_KNOWN = -1


async def handle(
    request: "Request[bodies.DescribeQuorumRequest]", session: Session
) -> "bodies.DescribeQuorumResponse":
    """Describe the metadata partition."""
    brokers = session.broker.cluster.brokers(*session.reached)
    nodes: list[bodies.DescribeQuorumResponseNode] = [
        {
            "node_id": each.broker_id,
            "listeners": [{"name": _LISTENER, "host": each.host, "port": each.port}],
        }
        for each in brokers
    ]
    voters = [each.broker_id for each in brokers]
    return {
        "error_code": 0,
        "error_message": None,
        "topics": await answer_partitions(
            ((topic["topic_name"], topic["partitions"]) for topic in request.body["topics"]),
            lambda name, each: _partition(session, name, each["partition_index"], voters),
            lambda name, its: {"topic_name": name, "partitions": its},
        ),
        "nodes": nodes,
    }


def _partition(
    session: Session, topic: str, partition: int, voters: Sequence[int]
) -> "bodies.DescribeQuorumResponsePartition":
    if (topic, partition) != (_TOPIC, _PARTITION):
        return _refused(partition, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    cluster = session.broker.cluster
    if cluster.controller_id == NO_LEADER:
        return _refused(partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    revision = session.broker.metadata.image.revision
    now_ms = session.broker.clock.wall_ms()
    return {
        "partition_index": partition,
        "error_code": 0,
        "error_message": None,
        "leader_id": cluster.controller_id,
        "leader_epoch": min(cluster.controller_epoch, _INT32_MAX),
        "high_watermark": revision,
        "current_voters": [
            _voter(each, revision, now_ms if each == session.broker.node_id else _NOT_KNOWN)
            for each in voters
        ],
        "observers": [],
    }


def _voter(
    broker_id: int, revision: int, seen_ms: int
) -> "bodies.DescribeQuorumResponseCurrentVoter":
    return {
        "replica_id": broker_id,
        "replica_directory_id": NO_ID,
        "log_end_offset": revision,
        "last_fetch_timestamp": seen_ms,
        "last_caught_up_timestamp": seen_ms,
    }


def _refused(partition: int, code: ErrorCode) -> "bodies.DescribeQuorumResponsePartition":
    return {
        "partition_index": partition,
        **refuse_with_message(RequestError(code)),
        "leader_id": -1,
        "leader_epoch": -1,
        "high_watermark": -1,
        "current_voters": [],
        "observers": [],
    }


API = Api(
    55, "DescribeQuorum", range(3), handle, (on_cluster(Operation.DESCRIBE),), refuse_with_message
)
