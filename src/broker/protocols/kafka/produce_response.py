"""The batches of a Produce request, what became of each, and the response."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from broker.core.logs.log import Log
from broker.core.scheduling.steps import StepBudget
from broker.core.topics.topic import Topic
from broker.model.errors import ErrorCode, PeerError, RequestError
from broker.model.limits import PRODUCE_NAME_BYTES
from broker.model.log_results import AppendResult
from broker.protocols.kafka import errors
from broker.protocols.kafka.current_leaders import CurrentLeaders

if TYPE_CHECKING:
    from broker.codec import bodies

_MAGIC_2_SINCE = 3
_LEADERS_SINCE = 10
_NOT_LEADER = errors.number(ErrorCode.NOT_LEADER_OR_FOLLOWER)


class Place(NamedTuple):
    """A partition as the request names it: up to v12 by the topic's name, then by its id."""

    name: str
    topic_id: bytes
    partition: int


class Batch(NamedTuple):
    """The records for one partition."""

    topic: Topic
    log: Log
    records: bytes


class Written(NamedTuple):
    """A batch that was appended, or had been appended before."""

    log: Log
    appended: AppendResult


class Refused(NamedTuple):
    """A batch that was refused: an error without the frames that it was raised through."""

    code: ErrorCode
    message: str = ""
    keyless_records: tuple[int, ...] = ()  # the first of them, if that is the reason


Outcomes: TypeAlias = Mapping[Place, Written | Refused]


async def check_written(outcomes: Outcomes, budget: StepBudget) -> None:
    """Raise PeerError, to close the connection, if a batch is not written."""
    for place, outcome in outcomes.items():
        if isinstance(outcome, Refused):
            error = RequestError(outcome.code, outcome.message)
            text = f"Produce with acks=0 to {place.name!r}-{place.partition} refused: {error}"
            raise PeerError(text)
        await budget.spend(PRODUCE_NAME_BYTES)


async def build(
    version: int, outcomes: Outcomes, leaders: CurrentLeaders, budget: StepBudget
) -> "bodies.ProduceResponse":
    """Return the response; batches of one topic stand together.

    Whether this broker still leads a partition is checked here, as late as possible: it may not
    acknowledge a batch once another broker can lead it.
    """
    topics: dict[tuple[str, bytes], list[bodies.ProduceResponsePartitionResponse]] = {}
    responses: list[bodies.ProduceResponseResponse] = []
    for place, outcome in outcomes.items():
        partitions = topics.setdefault((place.name, place.topic_id), [])
        if not partitions:
            responses.append(
                {"name": place.name, "topic_id": place.topic_id, "partition_responses": partitions}
            )
        if isinstance(outcome, Written) and not outcome.log.is_led:
            outcome.log.failed_writes += 1
            outcome = Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)  # noqa: PLW2901
        answer = _partition(version, place.partition, outcome)
        partitions.append(answer)
        if version >= _LEADERS_SINCE and answer["error_code"] == _NOT_LEADER:
            leader = leaders.of(*place)
            if leader is not None:
                answer["current_leader"] = {**leader}
        await budget.spend(PRODUCE_NAME_BYTES)
    return {
        "responses": responses,
        "node_endpoints": [{**each} for each in leaders.endpoints()],
    }


def _partition(
    version: int, index: int, outcome: Written | Refused
) -> "bodies.ProduceResponsePartitionResponse":
    if isinstance(outcome, Written):
        log, appended = outcome
        return {
            "index": index,
            "error_code": 0,
            "base_offset": appended.base_offset,
            "log_append_time_ms": appended.append_time_ms,
            "log_start_offset": log.log_start_offset,
        }
    is_old = version < _MAGIC_2_SINCE
    return {
        "index": index,
        "error_code": errors.old_number(outcome.code) if is_old else errors.number(outcome.code),
        "base_offset": -1,
        "record_errors": [
            {"batch_index": place, "batch_index_error_message": "the record has no key"}
            for place in outcome.keyless_records
        ],
        "error_message": outcome.message or None,
    }
