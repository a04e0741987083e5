"""FindCoordinator, v0-6. v1 key type; v3 flexible; v4 several keys (KIP-699); v6 share groups.

The coordinator of a group or transactional id is the leader of the partition of the internal topic
that the key hashes to; the first request creates the topic.
"""

from typing import TYPE_CHECKING

from broker.core import access
from broker.core.scheduling.steps import in_parts
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import Api, Request, outcome, unique
from broker.protocols.kafka.operations import on_each

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from broker.codec import bodies
    from broker.core.topics.topic import Topic

    _Find = Callable[[str], bodies.FindCoordinatorResponseCoordinator]

_BATCHED_SINCE = 4
_GROUP = 0
_TRANSACTION = 1
_RESOURCES = {_GROUP: ResourceType.GROUP, _TRANSACTION: ResourceType.TRANSACTIONAL_ID}


async def handle(
    request: "Request[bodies.FindCoordinatorRequest]", session: Session
) -> "bodies.FindCoordinatorResponse":
    """Return the broker that leads the partition of each key."""
    find = await _finder(request.body["key_type"], session)
    if request.version < _BATCHED_SINCE:
        found = _find(request, session, find, request.body["key"])
        return {
            "error_code": found["error_code"],
            "error_message": found["error_message"],
            "node_id": found["node_id"],
            "host": found["host"],
            "port": found["port"],
        }
    answers: list[bodies.FindCoordinatorResponseCoordinator] = []
    keys = await unique(request.body["coordinator_keys"])
    async for part in in_parts(keys, access.per_step(session, PARTITIONS_ANSWERED_PER_STEP)):
        answers += ({**_find(request, session, find, key), "key": key} for key in part)
    return {"coordinators": answers}


def _find(
    request: "Request[bodies.FindCoordinatorRequest]",
    session: Session,
    find: "_Find",
    key: str,
) -> "bodies.FindCoordinatorResponseCoordinator":
    resource = _RESOURCES.get(request.body["key_type"])
    if resource is not None:
        try:
            access.check(session, Operation.DESCRIBE, resource, key)
        except RequestError as error:
            return _refused(error)
    return find(key)


async def _finder(key_type: int, session: Session) -> "_Find":
    """Return the function that finds the coordinator of a key; it has the refusal of all keys."""
    broker = session.broker
    topics = broker.topics
    kinds: dict[int, tuple[Callable[[], Awaitable[Topic]], Callable[[str], int]]] = {
        _GROUP: (topics.offsets_topic, broker.groups.partition_for),
        _TRANSACTION: (topics.transactions_topic, broker.transactions.partition_for),
    }
    if key_type not in kinds:
        return lambda _: _refused(RequestError(ErrorCode.INVALID_REQUEST))
    make, partition_for = kinds[key_type]
    try:
        topic = await make()
    except RequestError as error:
        message = error.message
        return lambda _: _refused(RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE, message))
    brokers = {each.broker_id: each for each in broker.cluster.brokers(*session.reached)}

    def find(key: str) -> "bodies.FindCoordinatorResponseCoordinator":
        leader = broker.cluster.leadership(topic, partition_for(key)).leader
        found = brokers.get(leader)
        if found is None:
            return _refused(RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return {
            "key": "",
            **outcome(None),
            "node_id": found.broker_id,
            "host": found.host,
            "port": found.port,
        }

    return find


def _refused(error: RequestError) -> "bodies.FindCoordinatorResponseCoordinator":
    return {"key": "", **outcome(error), "node_id": -1, "host": "", "port": -1}


API = Api(
    10,
    "FindCoordinator",
    range(7),
    handle,
    on_each(Operation.DESCRIBE, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID),
)
