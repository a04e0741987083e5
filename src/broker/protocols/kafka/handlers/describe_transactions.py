"""DescribeTransactions, v0-0: the state of transactional ids (KIP-664)."""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.transactions.records import by_topic
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Request, unique
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies


async def handle(
    request: "Request[bodies.DescribeTransactionsRequest]", session: Session
) -> "bodies.DescribeTransactionsResponse":
    """Describe one id after the other; each may have thousands of partitions."""
    wanted = await unique(request.body["transactional_ids"])
    return {
        "transaction_states": [await _describe(session, each) async for each in in_steps(wanted, 1)]
    }


async def _describe(
    session: Session, transactional_id: str
) -> "bodies.DescribeTransactionsResponseTransactionState":
    if not transactional_id:
        return _refused(transactional_id, ErrorCode.INVALID_REQUEST)
    try:
        kind = ResourceType.TRANSACTIONAL_ID
        access.check(session, Operation.DESCRIBE, kind, transactional_id)
    except RequestError as error:
        return _refused(transactional_id, error.code)
    found = await session.broker.transactions.describe(transactional_id)
    if found.error is not ErrorCode.NONE:
        return _refused(transactional_id, found.error)
    return {
        "error_code": 0,
        "transactional_id": transactional_id,
        "transaction_state": found.state.value,
        "transaction_timeout_ms": found.timeout_ms,
        "transaction_start_time_ms": found.started_ms,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": partitions}
            for topic, partitions in by_topic(found.partitions).items()
            if access.may(session, Operation.DESCRIBE, ResourceType.TOPIC, topic)
        ],
    }


def _refused(
    transactional_id: str, code: ErrorCode
) -> "bodies.DescribeTransactionsResponseTransactionState":
    return {
        "error_code": errors.number(code),
        "transactional_id": transactional_id,
        "transaction_state": "",
        "transaction_timeout_ms": 0,
        "transaction_start_time_ms": 0,
        "producer_id": 0,
        "producer_epoch": 0,
        "topics": [],
    }


API = Api(
    65,
    "DescribeTransactions",
    range(1),
    handle,
    on_each(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, ResourceType.TOPIC),
)
