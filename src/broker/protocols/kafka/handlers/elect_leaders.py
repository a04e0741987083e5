"""ElectLeaders, v0-2. v1 election type (KIP-460); v2 flexible.

Each partition is led by its only replica, so no election is needed. If that is offline, there is no
other replica to elect, not even in an unclean election. Every broker of a cluster knows that, not
only the controller.
"""

from typing import TYPE_CHECKING

from broker.core.cluster.records import NO_LEADER
from broker.core.scheduling.steps import in_steps
from broker.core.session import Session
from broker.core.topics.lookup import check_exists, topic_by_name
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, RequestError
from broker.model.limits import PARTITIONS_ANSWERED_PER_STEP
from broker.protocols.kafka.api import Api, Request, refuse_with_message
from broker.protocols.kafka.partitions import topics_of, unique_partitions

if TYPE_CHECKING:
    from broker.codec import bodies

_PREFERRED, _UNCLEAN = 0, 1
_OF_OFFLINE = {
    _PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    _UNCLEAN: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


async def handle(
    request: "Request[bodies.ElectLeadersRequest]", session: Session
) -> "bodies.ElectLeadersResponse":
    """Return a result for each requested partition; for all: for those that are offline."""
    election_type = request.body["election_type"]
    if election_type not in _OF_OFFLINE:
        raise RequestError(ErrorCode.INVALID_REQUEST)
    wanted = request.body["topic_partitions"]
    if wanted is None:
        asked = await _all_offline(session)
    else:
        asked = await unique_partitions((each["topic"], each["partitions"]) for each in wanted)
    results: dict[str, list[bodies.ElectLeadersResponsePartitionResult]] = {}
    async for name, partition in in_steps(asked, PARTITIONS_ANSWERED_PER_STEP):
        result = _result(session, election_type, name, partition)
        results.setdefault(name, []).append(result)
    return {
        "error_code": 0,
        "replica_election_results": await topics_of(
            results, lambda name, its: {"topic": name, "partition_result": its}
        ),
    }


async def _all_offline(session: Session) -> list[tuple[str, int]]:
    named = (
        (topic, number) for topic in session.broker.topics for number in range(len(topic.logs))
    )
    return [
        (topic.name, number)
        async for topic, number in in_steps(named, PARTITIONS_ANSWERED_PER_STEP)
        if _has_no_leader(session, topic, number)
    ]


def _has_no_leader(session: Session, topic: Topic, partition: int) -> bool:
    return session.broker.cluster.leadership(topic, partition).leader == NO_LEADER


def _result(
    session: Session, election_type: int, name: str, partition: int
) -> "bodies.ElectLeadersResponsePartitionResult":
    refusal = RequestError(ErrorCode.ELECTION_NOT_NEEDED)
    try:
        topic = topic_by_name(session.broker.topics, name)
        check_exists(topic, partition)
        if _has_no_leader(session, topic, partition):
            refusal = RequestError(_OF_OFFLINE[election_type])
    except RequestError as error:
        refusal = error
    return {"partition_id": partition, **refuse_with_message(refusal)}


API = Api(43, "ElectLeaders", range(3), handle)
