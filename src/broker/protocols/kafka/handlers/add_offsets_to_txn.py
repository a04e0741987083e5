"""AddOffsetsToTxn, v0-4. v2 PRODUCER_FENCED; v3 flexible; v4 TRANSACTION_ABORTABLE (KIP-890)."""

from typing import TYPE_CHECKING

from broker.core.security.acls import Operation
from broker.core.session import Session
from broker.core.transactions.commands import AddRequest, Producer
from broker.model.errors import ErrorCode, RequestError
from broker.protocols.kafka import transactions
from broker.protocols.kafka.api import Api, Request
from broker.protocols.kafka.operations import on_group, on_transaction

if TYPE_CHECKING:
    from broker.codec import bodies

_FENCED_SINCE = 2


async def handle(
    request: "Request[bodies.AddOffsetsToTxnRequest]", session: Session
) -> "bodies.AddOffsetsToTxnResponse":
    """Add the partition that stores a group's offsets."""
    body = request.body
    if not body["transactional_id"]:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    if not body["group_id"]:
        raise RequestError(ErrorCode.INVALID_GROUP_ID)
    place = await transactions.offsets_partition(session, body["group_id"])
    producer = Producer(body["transactional_id"], body["producer_id"], body["producer_epoch"])
    code = await session.broker.transactions.add(AddRequest(producer, (place,)))
    return {"error_code": transactions.number(code, knows_fencing=request.version >= _FENCED_SINCE)}


API = Api(
    25,
    "AddOffsetsToTxn",
    range(5),
    handle,
    (on_transaction(Operation.WRITE), on_group(Operation.READ)),
)
