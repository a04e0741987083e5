"""InitProducerId, v0-5. v2 flexible; v3 known id and epoch (KIP-360); v4 PRODUCER_FENCED.

v5 TRANSACTION_ABORTABLE; v6 is unstable in Kafka 4.3. Without a transactional id every request gets
a new producer id, even if it has an old one; with one, the producer gets the next epoch and older
instances are fenced.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.transactions.commands import InitRequest
from broker.core.transactions.names import is_reserved
from broker.core.transactions.records import NO_ID
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import transactions
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from broker.codec import bodies

_FENCED_SINCE = 4


async def handle(
    request: "Request[bodies.InitProducerIdRequest]", session: Session
) -> "bodies.InitProducerIdResponse":
    """Return a new producer id, or the next epoch of a transactional producer."""
    body = request.body
    transactional_id = body["transactional_id"]
    if transactional_id is not None:
        access.check(session, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    elif not access.may_cluster(session, Operation.IDEMPOTENT_WRITE) and not access.may_any(
        session, Operation.WRITE, ResourceType.TOPIC
    ):
        access.check_cluster(session, Operation.IDEMPOTENT_WRITE)
    if (body["producer_id"] == -1) != (body["producer_epoch"] == -1):
        raise RequestError(ErrorCode.INVALID_REQUEST)
    if transactional_id is None:
        producer_id = await transactions.fresh_producer_id(session)
        return {"error_code": 0, "producer_id": producer_id, "producer_epoch": 0}
    if not transactional_id:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    if is_reserved(transactional_id):  # No client retries after this error.
        raise RequestError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    coordinator = session.broker.transactions
    if not coordinator.coordinates(transactional_id):
        raise RequestError(ErrorCode.NOT_COORDINATOR)
    needs_id = coordinator.needs_fresh_id(transactional_id)
    fresh_id = await transactions.fresh_producer_id(session) if needs_id else NO_ID
    response = await coordinator.init(
        InitRequest(
            transactional_id,
            body["transaction_timeout_ms"],
            fresh_id,
            body["producer_id"],
            body["producer_epoch"],
        )
    )
    return {
        "error_code": transactions.number(
            response.error, knows_fencing=request.version >= _FENCED_SINCE
        ),
        "producer_id": response.producer_id,
        "producer_epoch": response.producer_epoch,
    }


API = Api(
    22,
    "InitProducerId",
    range(6),
    handle,
    (
        *on_each(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, ResourceType.TOPIC),
        *on_each(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER),
    ),
)
