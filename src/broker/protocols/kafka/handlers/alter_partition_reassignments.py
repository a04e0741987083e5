"""AlterPartitionReassignments, v0-1. v1 allow_replication_factor_change (KIP-455).

Any broker of a cluster writes what is asked for; the response is sent when it is stored, not when
it is completed: ListPartitionReassignments has what is under way. Null replicas cancel.

A partition of a standalone broker stays where it is, because there is no other broker.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.core.topics.lookup import check_exists, topic_by_name
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import Api, Request, outcome, refuse_with_message
from broker.protocols.kafka.operations import on_cluster
from broker.protocols.kafka.partitions import answer_partitions

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.core.cluster.records import Replicas
    from broker.core.cluster.writes import Item

    _Partition = bodies.AlterPartitionReassignmentsRequestPartition


async def handle(
    request: "Request[bodies.AlterPartitionReassignmentsRequest]", session: Session
) -> "bodies.AlterPartitionReassignmentsResponse":
    """Return a result for each partition."""
    topics = [(topic["name"], topic["partitions"]) for topic in request.body["topics"]]
    may_change_factor = request.body["allow_replication_factor_change"]
    errors = await _reassign(session, topics, may_change_factor=may_change_factor)

    def answer(
        name: str, wanted: "_Partition"
    ) -> "bodies.AlterPartitionReassignmentsResponsePartition":
        number = wanted["partition_index"]
        return {"partition_index": number, **outcome(errors.get((name, number)))}

    return {
        "allow_replication_factor_change": may_change_factor,
        "error_code": 0,
        "error_message": None,
        "responses": await answer_partitions(
            topics, answer, lambda name, its: {"name": name, "partitions": its}
        ),
    }


async def _reassign(
    session: Session, topics: "Sequence[tuple[str, list[_Partition]]]", *, may_change_factor: bool
) -> dict[tuple[str, int], RequestError]:
    """Reassign; return the errors. A partition that is named twice gets what is named last."""
    changes = session.broker.partition_changes
    errors: dict[tuple[str, int], RequestError] = {}
    targets: dict[Item, Sequence[int] | None] = {}
    places: dict[Item, tuple[str, int]] = {}
    named = ((name, each) for name, partitions in topics for each in partitions)
    async for name, each in in_steps(named, PARTITIONS_ANSWERED_PER_STEP):
        number, replicas = each["partition_index"], each["replicas"]
        try:
            topic = topic_by_name(session.broker.topics, name)
            check_exists(topic, number)
            if changes is None:
                _check_only_replica(session, topic, number, replicas)
        except RequestError as error:
            errors[name, number] = error
        else:
            targets[topic.topic_id, number] = replicas
            places[topic.topic_id, number] = name, number
    if changes is not None:
        refused = await changes.reassign(targets, may_change_factor=may_change_factor)
        errors |= {places[item]: error for item, error in refused.items()}
    return errors


def _check_only_replica(
    session: Session, topic: Topic, number: int, wanted: Sequence[int] | None
) -> None:
    present: Replicas = session.broker.cluster.leadership(topic, number).replicas
    if wanted is None:
        raise RequestError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if tuple(wanted) != present:
        raise RequestError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the replicas must be {list(present)}, as now: there is one broker",
        )


API = Api(
    45,
    "AlterPartitionReassignments",
    range(2),
    handle,
    (on_cluster(Operation.ALTER),),
    refuse_with_message,
)
