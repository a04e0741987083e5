"""Produce, v0-13: append one batch per partition.

v1 throttle time; v2 append time (KIP-32); v3 batches of magic 2, transactional id; v5 log start
offset; v7 zstd (KIP-110); v8 record errors, error message (KIP-467); v9 flexible; v10 current
leader (KIP-951); v11 TRANSACTION_ABORTABLE, v12 implicit partitions (KIP-890); v13 topic ids.

The native path (src/_native/protocols/kafka/produce.pyx) serves most requests; this handler serves
every request and is its specification. A request passes five phases, each in steps of one budget:

    read       its partitions; one that is named twice is refused
    look up    the log of each
    admit      the coordinator adds new partitions to the producer's transaction (KIP-890)
    append     per partition, in request order: check, prepare, write, and wait until it is durable
    answer     (transactions.py, produce_appends.py and produce_response.py are the last three)

A batch is checked in this order, and the first error is the partition's answer: the transactional
id, the request (acks), whether the client may write the topic, the topic, the partition, its
transaction, what the API version allows, the records, the topic's settings, the producer's
sequence. With acks=0 there is no response, and an error closes the connection.
"""

from collections.abc import Awaitable
from typing import TYPE_CHECKING, TypeAlias

from broker.core import access
from broker.core.forwarding import comes_from_brokers
from broker.core.scheduling.eager import run_to_first_wait
from broker.core.scheduling.steps import StepBudget
from broker.core.security.acls import Operation, ResourceType
from broker.core.security.audit import AUDIT_TOPIC
from broker.core.session import Session
from broker.core.topics.lookup import led_log
from broker.core.topics.rules import check_may_write
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.identifiers import BROKERS_CLIENT_ID
from broker.model.limits import PRODUCE_BYTES_PER_STEP, PRODUCE_NAME_BYTES
from broker.protocols.base import Answer
from broker.protocols.kafka import produce_response, transactions
from broker.protocols.kafka.api import Api, Request, Response
from broker.protocols.kafka.current_leaders import CurrentLeaders
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.produce_appends import TOPIC_IDS_SINCE, append_all
from broker.protocols.kafka.produce_response import Batch, Place, Refused

if TYPE_CHECKING:
    from broker.codec import bodies

    _Request: TypeAlias = Request[bodies.ProduceRequest]

_ACKS = (-1, 0, 1)
_ADMIN_CLIENT = "__admin_client"  # the client id that may write internal topics, if configured


def handle(
    request: "Request[bodies.ProduceRequest]", session: Session
) -> "Response[bodies.ProduceResponse] | Awaitable[Response[bodies.ProduceResponse]]":
    """Append all valid batches; respond when they are durable.

    A short request has no wait before that. With acks=0 a producer may disconnect as soon as it has
    sent the request: all of it is appended nevertheless, within the limits of `Broker.appends`.
    """
    response = _serve(request, session)
    if request.body["acks"] != 0 or not isinstance(response, Awaitable):
        return response
    topics = request.body["topic_data"]
    size = sum(len(each["records"] or b"") for topic in topics for each in topic["partition_data"])
    return session.broker.appends.run_to_completion(response, size)


@run_to_first_wait
async def _serve(request: "_Request", session: Session) -> "Response[bodies.ProduceResponse]":
    budget = StepBudget(PRODUCE_BYTES_PER_STEP)
    sent = await _read(request, budget)
    refusal = _refusal(request, session)
    if refusal is None:
        batches = await _look_up(request, session, sent, budget)
    else:
        batches = dict.fromkeys(sent, refusal)
    await transactions.admit(request, session, batches, budget)
    outcomes = await append_all(request, session, batches, budget)
    if request.body["acks"] == 0:
        await produce_response.check_written(outcomes, budget)
        return Answer(None)
    leaders = CurrentLeaders(session)
    return await produce_response.build(request.version, outcomes, leaders, budget)


def _refusal(request: "_Request", session: Session) -> Refused | None:
    """Return the answer for all partitions if the client may not write the transaction."""
    transactional_id = request.body["transactional_id"]
    if transactional_id is not None:
        try:
            kind = ResourceType.TRANSACTIONAL_ID
            access.check(session, Operation.WRITE, kind, transactional_id)
        except RequestError as error:
            return Refused(error.code)
    return None


async def _read(request: "_Request", budget: StepBudget) -> dict[Place, bytes | None]:
    """Return the records for each partition, in request order; None: it is named twice."""
    sent: dict[Place, bytes | None] = {}
    for topic in request.body["topic_data"]:
        for partition in topic["partition_data"]:
            place = Place(topic["name"], topic["topic_id"], partition["index"])
            sent[place] = None if place in sent else partition["records"] or b""
            await budget.spend(PRODUCE_NAME_BYTES)
    return sent


async def _look_up(
    request: "_Request", session: Session, sent: dict[Place, bytes | None], budget: StepBudget
) -> dict[Place, Batch | Refused]:
    batches: dict[Place, Batch | Refused] = {}
    cost = PRODUCE_NAME_BYTES
    if session.broker.security.authorizer is not None:
        cost *= 2  # the decision takes as long as the rest
    for place, records in sent.items():
        try:
            batches[place] = _batch(request, session, place, records)
        except RequestError as error:
            batches[place] = Refused(error.code, error.message)
        await budget.spend(cost)
    return batches


def _batch(request: "_Request", session: Session, place: Place, records: bytes | None) -> Batch:
    """Return a batch and the log that it is for; RequestError is the partition's answer."""
    if records is None:
        raise RequestError(ErrorCode.INVALID_REQUEST, "the request names this partition twice")
    if request.body["acks"] not in _ACKS:
        raise RequestError(ErrorCode.INVALID_REQUIRED_ACKS)
    if request.version >= TOPIC_IDS_SINCE:
        topic = access.topic_of_id(session, Operation.WRITE, place.topic_id)
    else:
        topic = access.topic_named(session, Operation.WRITE, place.name)
    if not (topic.is_internal and _may_write_internal(request, session, topic)):
        check_may_write(topic)
    return Batch(topic, led_log(topic, place.partition), records)


def _may_write_internal(request: "_Request", session: Session, topic: Topic) -> bool:
    if topic.name == AUDIT_TOPIC:  # another broker's events, which leads no partition of it
        if request.client_id != BROKERS_CLIENT_ID or not comes_from_brokers(session):
            return False
        return access.may_cluster(session, Operation.CLUSTER_ACTION)
    is_admin = request.client_id == _ADMIN_CLIENT
    return is_admin and session.broker.config.flag("polylog.internal.topics.writable")


API = Api(
    0,
    "Produce",
    range(14),
    handle,
    on_each(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, ResourceType.TOPIC),
    has_own_limits=True,
)
