"""FindCoordinator, v0-6. v1 key type; v3 flexible; v4 several keys (KIP-699); v6 share groups.

This broker is the coordinator of every group and transactional id; the first request creates the
internal topic.
"""

from broker.core.scheduling.steps import in_parts
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.kafka.api import Api, Fields, Request, refuse_with_message, unique

_BATCHED_SINCE = 4
_GROUP = 0
_TRANSACTION = 1


async def handle(request: Request, session: Session) -> Fields:
    """Return this broker for every key."""
    answer = await _coordinator(request.body["key_type"], session)
    if request.version < _BATCHED_SINCE:
        return answer
    found: list[Fields] = []
    async for part in in_parts(await unique(request.body["coordinator_keys"]), NAMES_READ_PER_STEP):
        found += ({"key": key, **answer} for key in part)
    return {"coordinators": found}


async def _coordinator(key_type: int, session: Session) -> Fields:
    topics = session.broker.topics
    make = {_GROUP: topics.offsets_topic, _TRANSACTION: topics.transactions_topic}.get(key_type)
    if make is None:
        return _refused(RequestError(ErrorCode.INVALID_REQUEST))
    try:
        await make()
    except RequestError as error:
        return _refused(RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message))
    return {
        "error_code": 0,
        "error_message": None,
        "node_id": session.broker.node_id,
        "host": session.listener_host,
        "port": session.listener_port,
    }


def _refused(error: RequestError) -> Fields:
    return {**refuse_with_message(error), "node_id": -1, "host": "", "port": -1}


API = Api(10, "FindCoordinator", range(7), handle)
