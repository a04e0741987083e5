"""FindCoordinator, v0-6. v1 key type; v3 flexible; v4 several keys (KIP-699); v6 share groups.

This broker is the coordinator of every group and transactional id; the first request creates the
internal topic.
"""

from typing import TYPE_CHECKING

from broker.core.scheduling.steps import in_parts
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import NAMES_READ_PER_STEP
from broker.protocols.kafka.api import Api, Request, outcome, unique

if TYPE_CHECKING:
    from broker.codec import bodies

_BATCHED_SINCE = 4
_GROUP = 0
_TRANSACTION = 1


async def handle(
    request: "Request[bodies.FindCoordinatorRequest]", session: Session
) -> "bodies.FindCoordinatorResponse":
    """Return this broker for every key."""
    found = await _coordinator(request.body["key_type"], session)
    if request.version < _BATCHED_SINCE:
        return {
            "error_code": found["error_code"],
            "error_message": found["error_message"],
            "node_id": found["node_id"],
            "host": found["host"],
            "port": found["port"],
        }
    answers: list[bodies.FindCoordinatorResponseCoordinator] = []
    async for part in in_parts(await unique(request.body["coordinator_keys"]), NAMES_READ_PER_STEP):
        answers += ({**found, "key": key} for key in part)
    return {"coordinators": answers}


async def _coordinator(
    key_type: int, session: Session
) -> "bodies.FindCoordinatorResponseCoordinator":
    """Return the result for any key."""
    topics = session.broker.topics
    make = {_GROUP: topics.offsets_topic, _TRANSACTION: topics.transactions_topic}.get(key_type)
    if make is None:
        return _refused(RequestError(ErrorCode.INVALID_REQUEST))
    try:
        await make()
    except RequestError as error:
        return _refused(RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, error.message))
    return {
        "key": "",
        **outcome(None),
        "node_id": session.broker.node_id,
        "host": session.listener_host,
        "port": session.listener_port,
    }


def _refused(error: RequestError) -> "bodies.FindCoordinatorResponseCoordinator":
    return {"key": "", **outcome(error), "node_id": -1, "host": "", "port": -1}


API = Api(10, "FindCoordinator", range(7), handle)
