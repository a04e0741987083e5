"""AddPartitionsToTxn, v0-5. v2 PRODUCER_FENCED; v3 flexible; v4 batched, verify_only (KIP-890).

v5 TRANSACTION_ABORTABLE. Clients use up to v3, with one transaction per request; brokers use v4 and
v5 between each other, and any client may.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import ascending, in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import check_exists, topic_by_name
from broker.core.topics.topic import TRANSACTIONS_TOPIC
from broker.core.transactions.commands import AddRequest, Producer, VerifyRequest
from broker.core.transactions.end_rules import EPOCH_BUMP_VERSION
from broker.core.transactions.records import TopicPartition
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import (
    NAMES_READ_PER_STEP,
    PARTITIONS_ANSWERED_PER_STEP,
    TRANSACTIONS_PER_STEP,
)
from broker.protocols.kafka import transactions
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import topics_of, unique_partitions

if TYPE_CHECKING:
    from broker.codec import bodies

_FENCED_SINCE = 2
_BATCHED_SINCE = 4
_ABORTABLE_SINCE = 5


async def handle(
    request: "Request[bodies.AddPartitionsToTxnRequest]", session: Session
) -> "bodies.AddPartitionsToTxnResponse":
    """Add partitions to each transaction, all or none of them."""
    body = request.body
    if request.version < _BATCHED_SINCE:
        producer = Producer(
            body["v3_and_below_transactional_id"],
            body["v3_and_below_producer_id"],
            body["v3_and_below_producer_epoch"],
        )
        places = await _places(body["v3_and_below_topics"])
        codes = await _add_of_client(session, producer, places)
        return {"results_by_topic_v3_and_below": await _results(request, codes)}
    access.check_cluster(session, Operation.CLUSTER_ACTION)  # of brokers alone
    return {
        "results_by_transaction": [
            await _transaction(request, session, each)
            async for each in in_steps(body["transactions"], TRANSACTIONS_PER_STEP)
        ]
    }


async def _transaction(
    request: "Request[bodies.AddPartitionsToTxnRequest]",
    session: Session,
    wanted: "bodies.AddPartitionsToTxnRequestTransaction",
) -> "bodies.AddPartitionsToTxnResponseResultsByTransaction":
    transactional_id = wanted["transactional_id"]
    producer = Producer(transactional_id, wanted["producer_id"], wanted["producer_epoch"])
    places = await _places(wanted["topics"])
    if wanted["verify_only"]:
        response = await session.broker.transactions.verify(VerifyRequest(producer, tuple(places)))
        supports_abortable = request.version >= _ABORTABLE_SINCE
        codes = {
            place: transactions.abortable(code, supports_abortable=supports_abortable)
            for place, code in zip(places, response.errors, strict=True)
        }
    else:  # of the broker that leads them, for a producer of KIP-890
        codes = await _add(session, producer, places, client_version=EPOCH_BUMP_VERSION)
    return {"transactional_id": transactional_id, "topic_results": await _results(request, codes)}


async def _add_of_client(
    session: Session, producer: Producer, places: list[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """Add partitions, all of which the client must be allowed to write."""
    try:
        kind = ResourceType.TRANSACTIONAL_ID
        access.check(session, Operation.WRITE, kind, producer.transactional_id)
    except RequestError as error:
        return dict.fromkeys(places, error.code)
    refused: dict[TopicPartition, ErrorCode] = {}
    async for place in in_steps(places, PARTITIONS_ANSWERED_PER_STEP):
        try:
            access.check_topic(session, Operation.WRITE, place[0])
        except RequestError as error:
            refused[place] = error.code
    if not refused:
        return await _add(session, producer, places, client_version=0)
    # Partitions that do not exist are told apart also if others are refused.
    found = {
        place: _refusal(session, place) or ErrorCode.OPERATION_NOT_ATTEMPTED
        async for place in in_steps(places, PARTITIONS_ANSWERED_PER_STEP)
        if place not in refused
    }
    return found | refused


async def _add(
    session: Session, producer: Producer, places: list[TopicPartition], *, client_version: int
) -> dict[TopicPartition, ErrorCode]:
    if not producer.transactional_id:
        return dict.fromkeys(places, ErrorCode.INVALID_REQUEST)
    refused = {
        place: code
        async for place in in_steps(places, PARTITIONS_ANSWERED_PER_STEP)
        if (code := _refusal(session, place))
    }
    if refused:
        return dict.fromkeys(places, ErrorCode.OPERATION_NOT_ATTEMPTED) | refused
    code = await session.broker.transactions.add(
        AddRequest(producer, tuple(places), client_version)
    )
    return dict.fromkeys(places, code)


def _refusal(session: Session, place: TopicPartition) -> ErrorCode | None:
    name, partition = place
    try:
        if name == TRANSACTIONS_TOPIC:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        check_exists(topic_by_name(session.broker.topics, name), partition)
    except RequestError as error:
        return error.code
    return None


async def _places(topics: "list[bodies.AddPartitionsToTxnRequestTopic]") -> list[TopicPartition]:
    return await unique_partitions((each["name"], each["partitions"]) for each in topics)


async def _results(
    request: "Request[bodies.AddPartitionsToTxnRequest]", codes: dict[TopicPartition, ErrorCode]
) -> "list[bodies.AddPartitionsToTxnResponseTopicResult]":
    """Return the results sorted by partition."""
    knows_fencing = request.version >= _FENCED_SINCE
    rows: dict[str, list[bodies.AddPartitionsToTxnResponseResultsByPartition]] = {}
    in_order = await ascending(codes, NAMES_READ_PER_STEP)
    async for name, index in in_steps(in_order, NAMES_READ_PER_STEP):
        code = transactions.number(codes[name, index], knows_fencing=knows_fencing)
        rows.setdefault(name, []).append({"partition_index": index, "partition_error_code": code})
    return await topics_of(rows, lambda name, its: {"name": name, "results_by_partition": its})


API = Api(
    24,
    "AddPartitionsToTxn",
    range(6),
    handle,
    (
        *on_each(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, ResourceType.TOPIC),
        *on_each(Operation.CLUSTER_ACTION, ResourceType.CLUSTER),
    ),
)
