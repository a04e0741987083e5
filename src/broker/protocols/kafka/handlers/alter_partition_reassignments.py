"""AlterPartitionReassignments, v0-1. v1 allow_replication_factor_change (KIP-455).

A partition stays on the broker on which it was created, because no other one has a copy of it. An
assignment to that broker is complete at once, and there is never a reassignment to cancel.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from broker.core.cluster.records import Replicas
from broker.core.session import Session
from broker.core.topics.lookup import check_exists, topic_by_name
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
        topic = topic_by_name(session.broker.topics, name)
        check_exists(topic, wanted["partition_index"])
        leadership = session.broker.cluster.leadership(topic, wanted["partition_index"])
        _check_replicas(wanted["replicas"], leadership.replicas)
    except RequestError as error:
        refusal = error
    return {"partition_index": wanted["partition_index"], **outcome(refusal)}


def _check_replicas(wanted: Sequence[int] | None, present: Replicas) -> None:
    if wanted is None:
        raise RequestError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if tuple(wanted) != present:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the replicas must be {list(present)}, as now: this version does not move partitions"
            " to other brokers",
        )


API = Api(45, "AlterPartitionReassignments", range(2), handle, refuse_with_message)
