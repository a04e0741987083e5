"""DescribeQuorum, v0-2. v1 times of the last fetch (KIP-836); v2 messages, directories, nodes.

This broker is the only voter since the cluster was created. The metadata store is the quorum's log:
each change has one offset, and is committed at once.
"""

from typing import TYPE_CHECKING

from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import NO_ID
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.partitions import answer_partitions

if TYPE_CHECKING:
    from broker.codec import bodies

_TOPIC = "__cluster_metadata"
_PARTITION = 0
_EPOCH = 1  # of the first election, which is the only one
_LISTENER = "PLAINTEXT"  # the only security protocol


async def handle(
    request: "Request[bodies.DescribeQuorumRequest]", session: Session
) -> "bodies.DescribeQuorumResponse":
    """Describe the metadata partition."""
    revision = session.broker.metadata.image.revision
    node: bodies.DescribeQuorumResponseNode = {
        "node_id": session.broker.node_id,
        "listeners": [
            {
                "name": _LISTENER,
                "host": session.listener_host,
                "port": session.listener_port,
            }
        ],
    }
    return {
        "error_code": 0,
        "error_message": None,
        "topics": await answer_partitions(
            ((topic["topic_name"], topic["partitions"]) for topic in request.body["topics"]),
            lambda name, each: _partition(session, name, each["partition_index"], revision),
            lambda name, its: {"topic_name": name, "partitions": its},
        ),
        "nodes": [node],
    }


def _partition(
    session: Session, topic: str, partition: int, revision: int
) -> "bodies.DescribeQuorumResponsePartition":
    if (topic, partition) != (_TOPIC, _PARTITION):
        return {
            "partition_index": partition,
            **refuse_with_message(RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)),
            "leader_id": -1,
            "leader_epoch": -1,
            "high_watermark": -1,
            "current_voters": [],
            "observers": [],
        }
    node_id = session.broker.node_id
    now_ms = session.broker.clock.wall_ms()
    return {
        "partition_index": partition,
        "error_code": 0,
        "error_message": None,
        "leader_id": node_id,
        "leader_epoch": _EPOCH,
        "high_watermark": revision,
        "current_voters": [
            {
                "replica_id": node_id,
                "replica_directory_id": NO_ID,
                "log_end_offset": revision,
                "last_fetch_timestamp": now_ms,
                "last_caught_up_timestamp": now_ms,
            }
        ],
        "observers": [],
    }


API = Api(55, "DescribeQuorum", range(3), handle, refuse_with_message)
