"""InitProducerId, v0-5. v2 flexible; v3 known id and epoch (KIP-360); v6 is unstable in Kafka 4.3.

Without a transactional id every request gets a new id, whatever the client held before. Requests
with one are refused, because there is no transaction coordinator yet.
"""

from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError, StorageError
from broker.protocols.kafka.api import Api, Fields, Request


async def handle(request: Request, session: Session) -> Fields:
    """Give out an id; reserving a block of them may wait for the disk."""
    body = request.body
    if (body["producer_id"] == -1) != (body["producer_epoch"] == -1):
        raise RequestError(ErrorCode.INVALID_REQUEST)
    if body["transactional_id"] is not None:
        is_empty = not body["transactional_id"]
        raise RequestError(ErrorCode.INVALID_REQUEST if is_empty else ErrorCode.UNSUPPORTED_VERSION)
    broker = session.broker
    try:
        producer_id = await broker.io_thread.run(broker.producer_ids.next_id)
    except StorageError as error:
        raise RequestError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
    return {"error_code": 0, "producer_id": producer_id, "producer_epoch": 0}


API = Api(22, "InitProducerId", range(6), handle)
