"""ElectLeaders, v0-2. v1 election type (KIP-460); v2 flexible.

Any broker of a cluster makes the elections, not only the controller. A preferred election is a
hand-over: the leader stops, and the first replica leads. An unclean one elects any live replica of
a partition that has no leader, and loses the records that this replica lacks.

A standalone broker is the only replica of everything. If a log of it is offline there is no other
one to elect.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from broker.core import access
from broker.core.cluster.records import NO_LEADER
from broker.core.cluster.writes import Item
from broker.core.scheduling.steps import in_steps
from broker.core.security.acls import Operation, ResourceType
from broker.core.session import Session
from broker.core.topics.lookup import check_exists, topic_by_name
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import ELECTION_SECONDS_MAX, PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import Api, Request, outcome
from broker.protocols.kafka.errors import number
from broker.protocols.kafka.operations import on_each
from broker.protocols.kafka.partitions import topics_of, unique_partitions

if TYPE_CHECKING:
    from broker.codec import bodies
    from broker.core.partition_changes import PartitionChanges

_PREFERRED, _UNCLEAN = 0, 1
_OF_OFFLINE = {
    _PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    _UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}
_Place: TypeAlias = tuple[str, int]


async def handle(
    request: "Request[bodies.ElectLeadersRequest]", session: Session
) -> "bodies.ElectLeadersResponse":
    """Return a result for each requested partition; for all: for those that need an election."""
    election_type = request.body["election_type"]
    if election_type not in _OF_OFFLINE:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    refusal = _refusal(session)
    wanted = request.body["topic_partitions"]
    asked: Sequence[_Place] = ()
    if wanted is not None:
        asked = await unique_partitions((each["topic"], each["partitions"]) for each in wanted)
    elif refusal is None:
        asked = await _all_that_need(session, election_type)
    items: dict[Item, _Place] = {}
    errors: dict[_Place, RequestError] = {}
    async for name, partition in in_steps(asked, PARTITIONS_ANSWERED_PER_STEP):
        try:
            topic = topic_by_name(session.broker.topics, name)
            check_exists(topic, partition)
        except RequestError as error:
            errors[name, partition] = refusal or error
        else:
            items[topic.topic_id, partition] = name, partition
    seconds = min(request.body["timeout_ms"] / 1000, ELECTION_SECONDS_MAX)
    if refusal is None:
        elected = await _elect(session, election_type, items, seconds)
    else:
        elected = dict.fromkeys(items, refusal)
    errors |= {items[each]: error for each, error in elected.items()}
    results: dict[str, list[bodies.ElectLeadersResponsePartitionResult]] = {}
    async for name, partition in in_steps(asked, PARTITIONS_ANSWERED_PER_STEP):
        row: bodies.ElectLeadersResponsePartitionResult = {
            "partition_id": partition,
            **outcome(errors.get((name, partition))),
        }
        results.setdefault(name, []).append(row)
    return {
        "error_code": 0 if refusal is None else number(refusal.code),
        "replica_election_results": await topics_of(
            results, lambda name, its: {"topic": name, "partition_result": its}
        ),
    }


def _refusal(session: Session) -> RequestError | None:
    """Return the error of the request, and of each partition, if the client may not elect."""
    try:
        access.check_cluster(session, Operation.ALTER)
    except RequestError as error:
        return error
    return None


async def _elect(
    session: Session, election_type: int, items: dict[Item, _Place], seconds: float
) -> dict[Item, RequestError]:
    """Elect; return the errors."""
    changes = session.broker.partition_changes
    if changes is None:
        return await _refusals(session, election_type, items)
    if election_type == _UNCLEAN:
        return await changes.elect_unclean(list(items))
    return await changes.prefer_leaders(list(items), seconds)


async def _refusals(
    session: Session, election_type: int, items: dict[Item, _Place]
) -> dict[Item, RequestError]:
    errors: dict[Item, RequestError] = {}
    async for item, place in in_steps(items.items(), PARTITIONS_ANSWERED_PER_STEP):
        topic = session.broker.topics.get(place[0])
        is_offline = topic is not None and _has_no_leader(session, topic, place[1])
        code = _OF_OFFLINE[election_type] if is_offline else ErrorCode.ELECTION_NOT_NEEDED
        errors[item] = RequestError(code)
    return errors


async def _all_that_need(session: Session, election_type: int) -> Sequence[_Place]:
    named = (
        (topic, number)
        for topic in session.broker.topics
        for number in range(topic.partition_count)
    )
    needs = _needs(session, election_type)
    return [
        (topic.name, number)
        async for topic, number in in_steps(named, PARTITIONS_ANSWERED_PER_STEP)
        if needs(topic, number)
    ]


def _needs(session: Session, election_type: int) -> Callable[[Topic, int], bool]:
    changes: PartitionChanges | None = session.broker.partition_changes
    if changes is None or election_type == _UNCLEAN:
        return lambda topic, number: _has_no_leader(session, topic, number)
    return lambda topic, number: not changes.is_led_by_preferred((topic.topic_id, number))


def _has_no_leader(session: Session, topic: Topic, partition: int) -> bool:
    return session.broker.cluster.leadership(topic, partition).leader == NO_LEADER


API = Api(43, "ElectLeaders", range(3), handle, on_each(Operation.ALTER, ResourceType.CLUSTER))
