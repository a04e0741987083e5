"""AlterPartitionReassignments, v0-1. v1 allow_replication_factor_change (KIP-455).

There is no other broker. An assignment to this broker is complete at once, and there is never a
reassignment to cancel.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.core.session import Session
from broker.core.topics.lookup import check_partition, topic_by_name
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka.api import Api, Request, outcome, refuse_with_message
from broker.protocols.kafka.partitions import answer_partitions

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.AlterPartitionReassignmentsRequest]", session: Session
) -> "bodies.AlterPartitionReassignmentsResponse":
    """Return a result for each partition."""
    topics = ((topic["name"], topic["partitions"]) for topic in request.body["topics"])
    return {
        "allow_replication_factor_change": request.body["allow_replication_factor_change"],
        "error_code": 0,
        "error_message": None,
        "responses": await answer_partitions(
            topics, partial(_result, session), lambda name, its: {"name": name, "partitions": its}
        ),
    }


def _result(
    session: Session, name: str, wanted: "bodies.AlterPartitionReassignmentsRequestPartition"
) -> "bodies.AlterPartitionReassignmentsResponsePartition":
    refusal = None
    try:
        check_partition(topic_by_name(session.broker.topics, name), wanted["partition_index"])
        _check_replicas(wanted["replicas"], session.broker.node_id)
    except RequestError as error:
        refusal = error
    return {"partition_index": wanted["partition_index"], **outcome(refusal)}


def _check_replicas(replicas: Sequence[int] | None, node_id: int) -> None:
    if replicas is None:
        raise RequestError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if list(replicas) != [node_id]:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the replicas must be broker {node_id}, once"
        )


API = Api(45, "AlterPartitionReassignments", range(2), handle, refuse_with_message)
