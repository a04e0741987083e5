"""DescribeProducers, v0-0: the active producers of each partition (KIP-664).

Each replica answers, with what it knows; clients ask the leader unless they name another broker.
Tools find hanging transactions by comparing this with the transaction coordinator's state.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import replica_of
from broker.model.errors import RequestError
from broker.model.limits import PRODUCERS_DESCRIBED_PER_STEP
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import rows_by_topic, topics_of, unique_partitions

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.DescribeProducersRequest]", session: Session
) -> "bodies.DescribeProducersResponse":
    """Describe one partition after the other; each may have ten thousand producers."""
    topics = request.body["topics"]
    answers: dict[str, list[bodies.DescribeProducersResponsePartition]] = await rows_by_topic(
        topic["name"] for topic in topics
    )
    places = await unique_partitions((each["name"], each["partition_indexes"]) for each in topics)
    async for name, index in in_steps(places, 1):
        answers[name].append(await _partition(session, name, index))
    return {"topics": await topics_of(answers, lambda name, its: {"name": name, "partitions": its})}


async def _partition(
    session: Session, topic: str, index: int
) -> "bodies.DescribeProducersResponsePartition":
    try:
        log = replica_of(access.topic_named(session, Operation.READ, topic), index)
    except RequestError as error:
        return {"partition_index": index, **refuse_with_message(error), "active_producers": []}
    return {
        "partition_index": index,
        "error_code": 0,
        "error_message": None,
        "active_producers": [
            {
                "producer_id": producer_id,
                "producer_epoch": epoch,
                "last_sequence": last_sequence,
                "last_timestamp": last_timestamp,
                "coordinator_epoch": coordinator_epoch,
                "current_txn_start_offset": first_offset,
            }
            async for (
                producer_id,
                epoch,
                last_sequence,
                last_timestamp,
                coordinator_epoch,
                first_offset,
            ) in in_steps(log.active_producers, PRODUCERS_DESCRIBED_PER_STEP)
        ],
    }


API = Api(61, "DescribeProducers", range(1), handle, on_each(Operation.READ, ResourceType.TOPIC))
