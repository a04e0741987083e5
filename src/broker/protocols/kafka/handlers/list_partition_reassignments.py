"""ListPartitionReassignments, v0-0: partitions whose replicas are being changed (KIP-455).

Every broker answers from its image of the metadata. A partition that does not exist is left out, as
one that is not reassigned.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from broker.core.scheduling.steps import in_parts
from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.operations import on_cluster
from broker.protocols.kafka.partitions import topics_of, unique_partitions

if TYPE_CHECKING:
    from broker.codec import bodies

    _Partition = bodies.ListPartitionReassignmentsResponsePartition


async def handle(
    request: "Request[bodies.ListPartitionReassignmentsRequest]", session: Session
) -> "bodies.ListPartitionReassignmentsResponse":
    """Return the requested partitions that are reassigned, or all."""
    wanted = request.body["topics"]
    named: Iterable[tuple[str, int]]
    if wanted is None:
        topics = session.broker.topics
        named = ((each.name, number) for each in topics for number in range(each.partition_count))
    else:
        named = await unique_partitions(
            (each["name"], each["partition_indexes"]) for each in wanted
        )
    found: dict[str, list[_Partition]] = {}
    async for part in in_parts(_rows(session, named), PARTITIONS_ANSWERED_PER_STEP):
        for name, row in part:
            if row is not None:
                found.setdefault(name, []).append(row)
    return {
        "error_code": 0,
        "error_message": None,
        "topics": await topics_of(found, lambda name, its: {"name": name, "partitions": its}),
    }


def _rows(
    session: Session, named: Iterable[tuple[str, int]]
) -> "Iterator[tuple[str, _Partition | None]]":
    for name, number in named:
        yield name, _reassigned(session, name, number)


def _reassigned(session: Session, name: str, number: int) -> "_Partition | None":
    topic = session.broker.topics.get(name)
    if topic is None or not topic.has_partition(number):
        return None
    leadership = session.broker.cluster.leadership(topic, number)
    if not leadership.adding and not leadership.removing:
        return None
    return {
        "partition_index": number,
        "replicas": list(leadership.replicas),
        "adding_replicas": list(leadership.adding),
        "removing_replicas": list(leadership.removing),
    }


API = Api(
    46,
    "ListPartitionReassignments",
    range(1),
    handle,
    (on_cluster(Operation.DESCRIBE),),
    refuse_with_message,
)
