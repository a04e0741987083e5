"""EndTxn, v0-5. v2 PRODUCER_FENCED; v3 flexible; v4 TRANSACTION_ABORTABLE.

v5 increments the producer epoch with each end and returns it (KIP-890). The response is sent when
the decision is durable; the markers are written after that.
"""

from typing import TYPE_CHECKING

from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.core.transactions.commands import EndRequest, Producer
from broker.core.transactions.records import NO_ID
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import transactions
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_transaction

if TYPE_CHECKING:
    from broker.codec import bodies

_FENCED_SINCE = 2
_BUMPS_SINCE = 5


async def handle(
    request: "Request[bodies.EndTxnRequest]", session: Session
) -> "bodies.EndTxnResponse":
    """Commit or abort."""
    body = request.body
    transactional_id = body["transactional_id"]
    if not transactional_id:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    coordinator = session.broker.transactions
    bumps_epoch = request.version >= _BUMPS_SINCE
    fresh_id = NO_ID
    if bumps_epoch and coordinator.needs_fresh_id(transactional_id, at_end=True):
        fresh_id = await transactions.fresh_producer_id(session)
    response = await coordinator.end(
        EndRequest(
            Producer(transactional_id, body["producer_id"], body["producer_epoch"]),
            body["committed"],
            bumps_epoch,
            fresh_id,
        )
    )
    return {
        "error_code": transactions.number(
            response.error, knows_fencing=request.version >= _FENCED_SINCE
        ),
        "producer_id": response.producer_id,
        "producer_epoch": response.producer_epoch,
    }


API = Api(26, "EndTxn", range(6), handle, (on_transaction(Operation.WRITE),))
