"""OffsetFetch, v0-10. v2 null topics mean all, error for the group; v3 throttle time.

v5 leader epoch (KIP-320); v6 flexible; v7 require_stable (KIP-447); v8 several groups (KIP-709);
v9 member epoch (KIP-848), which a classic group does not check; v10 topic ids. An unknown group,
topic or partition has offset -1 and no error: librdkafka depends on it. A group with an error has
no topics in its answer; versions 0 and 1, which have no error for the group, show it at each
partition.
"""

from typing import NamedTuple

from broker.core.groups.commands import FetchOffsetsRequest, FetchOffsetsResponse
from broker.core.groups.records import CommittedOffset
from broker.core.session import Session
from broker.core.topics import Topics
from broker.model.errors import ErrorCode
from broker.model.identifiers import NO_ID
from broker.protocols.kafka import errors
from broker.protocols.kafka.api import Api, Fields, Request, ask_in_turns

_GROUP_ERROR_SINCE = 2
_BATCHED_SINCE = 8
_TOPIC_IDS_SINCE = 10


class _Asked(NamedTuple):
    """A topic whose offsets are asked for."""

    name: str | None  # None: an id that no topic has
    topic_id: bytes
    partitions: list[int]


async def handle(request: Request, session: Session) -> Fields:
    """Answer for one group, or for each of several."""
    if request.version < _BATCHED_SINCE:
        return await _group(request, session, request.body)
    wanted = request.body["groups"]
    found = await ask_in_turns(lambda each: _group(request, session, each), wanted)
    return {
        "groups": [
            {"group_id": each["group_id"], **group}
            for each, group in zip(wanted, found, strict=True)
        ]
    }


async def _group(request: Request, session: Session, wanted: Fields) -> Fields:
    asked = _asked(request, session.broker.topics, wanted["topics"])
    response = await session.broker.groups.fetch_offsets(
        FetchOffsetsRequest(
            wanted["group_id"],
            None if asked is None else _partitions(asked),
            requires_stable=request.body["require_stable"],
            # Absent where there are no several groups, -1 where the version does not say.
            member_id=wanted.get("member_id"),
            member_epoch=wanted.get("member_epoch", -1),
        )
    )
    if response.error is not ErrorCode.NONE and request.version >= _GROUP_ERROR_SINCE:
        asked = []
    elif asked is None:
        asked = [
            _Asked(name, _id_of(session.broker.topics, name), list(offsets))
            for name, offsets in response.topics.items()
        ]
    has_ids = request.version >= _BATCHED_SINCE
    return {
        "error_code": errors.number(response.error),
        "topics": [_topic(each, response, has_ids=has_ids) for each in asked],
    }


def _asked(request: Request, topics: Topics, wanted: list[Fields] | None) -> list[_Asked] | None:
    if wanted is None:
        return None
    if request.version < _TOPIC_IDS_SINCE:
        return [_Asked(each["name"], NO_ID, each["partition_indexes"]) for each in wanted]
    return [
        _Asked(_name_of(topics, each["topic_id"]), each["topic_id"], each["partition_indexes"])
        for each in wanted
    ]


def _partitions(asked: list[_Asked]) -> dict[str, tuple[int, ...]]:
    """What the coordinator knows about: names, each once."""
    wanted: dict[str, list[int]] = {}
    for topic in asked:
        if topic.name is not None:
            wanted.setdefault(topic.name, []).extend(topic.partitions)
    return {name: tuple(partitions) for name, partitions in wanted.items()}


def _topic(asked: _Asked, response: FetchOffsetsResponse, *, has_ids: bool) -> Fields:
    code = response.error
    if code is ErrorCode.NONE and asked.name is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    name = asked.name or ""
    committed = response.topics.get(name, {})
    partitions = [
        _partition(partition, None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        if (name, partition) in response.unstable
        else _partition(partition, committed.get(partition), code)
        for partition in asked.partitions
    ]
    topic_id = {"topic_id": asked.topic_id} if has_ids else {}
    return {"name": name, **topic_id, "partitions": partitions}


def _partition(partition: int, committed: CommittedOffset | None, code: ErrorCode) -> Fields:
    return {
        "partition_index": partition,
        "committed_offset": -1 if committed is None else committed.offset,
        "committed_leader_epoch": -1 if committed is None else committed.leader_epoch,
        "metadata": "" if committed is None else committed.metadata,
        "error_code": errors.number(code),
    }


def _name_of(topics: Topics, topic_id: bytes) -> str | None:
    topic = topics.by_id(topic_id)
    return None if topic is None else topic.name


def _id_of(topics: Topics, name: str) -> bytes:
    topic = topics.get(name)
    return NO_ID if topic is None else topic.topic_id


API = Api(9, "OffsetFetch", range(11), handle)
